"""Published figures of the models of the zoo: parameters, and multiply-adds of one example."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

_UNITS = {"": 0, "k": 3, "M": 6, "G": 9, "B": 9, "T": 12}
MACS_TOLERANCE = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Published:
    """Figures of a model, as printed in its source: "25,557,032" or "0.27 M"; "" if the source has none.

    Multiply-adds are those of one example. `source` is a key in docs/references.bib, `note` the reason why ours
    differs.
    """

    parameters: str
    macs: str
    source: str
    note: str = ""

    def agrees(self, parameters: int, macs: int) -> bool:
        """True if our numbers agree: parameters in all printed digits, multiply-adds within 1 %.

        Examples
        --------
        >>> Published("0.27 M", "40 M", "he2016").agrees(269_722, 40_200_000)
        True
        >>> Published("25,557,032", "", "torchvision2016").agrees(25_557_031, 0)
        False
        """
        if self.parameters:
            printed, step = _number(self.parameters)
            if abs(parameters - printed) > step / 2:
                return False
        if self.macs:
            printed, _ = _number(self.macs)
            if abs(macs - printed) > MACS_TOLERANCE * printed:
                return False
        return True


def _number(text: str) -> tuple[Decimal, Decimal]:
    """A printed number, and the weight of its last digit; a whole number is exact."""
    digits, _, unit = text.replace(",", "").partition(" ")
    shift = Decimal(10) ** _UNITS[unit]
    number = Decimal(digits)
    return number * shift, (Decimal(10) ** int(number.as_tuple().exponent) if unit else Decimal(0)) * shift


def _torchvision(**counts: tuple[str, str]) -> dict[str, Published]:
    return {name: Published(parameters, macs, "torchvision2016") for name, (parameters, macs) in counts.items()}


PUBLISHED = {
    **_torchvision(
        resnet18=("11,689,512", "1.814 G"),
        resnet34=("21,797,672", "3.664 G"),
        resnet50=("25,557,032", "4.089 G"),
        resnet101=("44,549,160", "7.801 G"),
        resnet152=("60,192,808", "11.514 G"),
        vgg11=("132,863,336", "7.609 G"),
        vgg13=("133,047,848", "11.308 G"),
        vgg16=("138,357,544", "15.47 G"),
        vgg19=("143,667,240", "19.632 G"),
        vgg11_bn=("132,868,840", "7.609 G"),
        vgg13_bn=("133,053,736", "11.308 G"),
        vgg16_bn=("138,365,992", "15.47 G"),
        vgg19_bn=("143,678,248", "19.632 G"),
        densenet121=("7,978,856", "2.834 G"),
        densenet161=("28,681,000", "7.728 G"),
        densenet169=("14,149,480", "3.36 G"),
        densenet201=("20,013,928", "4.291 G"),
        mobilenet_v2=("3,504,872", "0.301 G"),
        vit_b_16=("86,567,656", "17.564 G"),
        vit_b_32=("88,224,232", "4.409 G"),
        vit_l_16=("304,326,632", "61.555 G"),
        vit_l_32=("306,535,400", "15.378 G"),
        vit_h_14=("632,045,800", "167.295 G"),
    ),
    "resnet200": Published("64.7 M", "", "he2016identity"),
    "resnet20": Published("0.27 M", "", "he2016"),
    "resnet32": Published("0.46 M", "", "he2016"),
    "resnet44": Published("0.66 M", "", "he2016"),
    "resnet56": Published("0.85 M", "", "he2016"),
    "resnet110": Published("1.7 M", "", "he2016"),
    "resnet1202": Published("19.4 M", "", "he2016"),
    "resnet164": Published("1.7 M", "", "he2016identity"),
    "resnet1001": Published(
        "10.2 M", "", "he2016identity", "10.2 M are the weights of its convolutions; batch norms have 149,216 more"
    ),
    "googlenet": Published(
        "",
        "1.5 G",
        "szegedy2015",
        "1.5 G is the paper's budget; with its 5 x 5 convolutions and auxiliary heads it has 1.59 G; the "
        "13,378,280 parameters are those of kusumoto2019's graph",
    ),
    "unet": Published("", "", "ronneberger2015", "the paper has no counts; others quote 31 M parameters"),
    "pspnet": Published("", "", "zhao2017", "the paper has no counts; the parameters are those of its authors' code"),
    "transformer_base": Published(
        "65 M", "", "vaswani2017", "the base models of its table 3 have a vocabulary of about 41,000 words, not 37,000"
    ),
    "transformer_big": Published(
        "213 M", "", "vaswani2017", "213 M corresponds to a vocabulary of about 36,000 words, not 37,000"
    ),
    "gpt2_small": Published("124,439,808", "", "radford2019"),
    "gpt2_medium": Published("354,823,168", "", "radford2019"),
    "gpt2_large": Published("774,030,080", "", "radford2019"),
    "gpt2_xl": Published("1,557,611,200", "", "radford2019"),
    "llama_7b": Published("6.7 B", "", "touvron2023"),
    "llama_13b": Published("13.0 B", "", "touvron2023"),
    "llama3_8b": Published("8.0 B", "", "dubey2024"),
    "ddpm_cifar10": Published("35.7 M", "", "ho2020"),
    "ddpm_lsun": Published("114 M", "", "ho2020"),
    "deepspeech2": Published("68 M", "", "amodei2016"),
    **{
        f"deepspeech2_{depth}rnn": Published(
            "38 M",
            "",
            "amodei2016",
            "the paper states 38 million for all four; the layers that it names have up to 39",
        )
        for depth in (1, 3, 5, 7)
    },
    "stable_diffusion_unet": Published("860 M", "", "rombach2022"),
    "mixtral_8x7b": Published("46.7 B", "", "jiang2024"),
    "switch_base_8": Published("620 M", "", "fedus2022", "620 M is rounded to the nearest 10 M"),
}
