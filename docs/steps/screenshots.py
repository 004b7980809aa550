"""The pictures of docs/steps.md: each page of `docs/steps/pages.py` in Chromium, at the step that is shown.

Usage: python docs/steps/screenshots.py [FOLDER for the pictures]

Needs playwright and a Chromium (`CHROMIUM` names its program). Run it again when a page looks different.
"""

import io
import os
import shutil
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from docs.steps.pages import PAGES, write

STEPS = {"lower_sets": 26, "elimination": 29, "recursion": 45, "closure_cut": 21, "live_sets": 25}


def main(folder):
    from PIL import Image
    from playwright.sync_api import sync_playwright

    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as written, sync_playwright() as playwright:
        write(Path(written))
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name in PAGES:
            page = browser.new_page(viewport={"width": 1000, "height": 900})
            page.goto(f"{(Path(written) / name).as_uri()}.html#step={STEPS[name]}")
            grid, top = page.locator("#plans").bounding_box(), page.locator(".status").bounding_box()
            height = grid["y"] + grid["height"] - top["y"] + 16
            clip = {"x": 0, "y": top["y"] - 8, "width": 1000, "height": height}
            picture = Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))
            picture.convert("RGB").quantize(64, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
                folder / f"steps_{name}.png", optimize=True
            )
            page.close()
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "screenshots")
