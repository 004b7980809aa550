"""Lightning: the network inside the LightningModule has the plan; the module logs outside of the network."""

import lightning
import torch
from network import batches, check, new_network


class Module(lightning.LightningModule):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, index):
        loss = self.net(*batch)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


def train(net):
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=1,
        log_every_n_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    data = torch.utils.data.DataLoader(batches(), batch_size=None)
    trainer.fit(Module(net), data)
    return net


net = new_network()
net.compile(backend="remat", options={"budget": "60%"}, dynamic=False)
check(train(net), train(new_network()))
