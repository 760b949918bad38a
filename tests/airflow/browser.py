"""In Airflow's Python: opens a run's page in headless Chromium, waits for texts on its graph, takes a picture.

Arguments: url, file, texts.
"""

import shutil
import sys

from playwright.sync_api import sync_playwright


def main(url, file, *texts):
    """Fails if a text does not come within a minute."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 560})
        page.goto(url)
        try:
            page.get_by_label("Graph").first.click(timeout=60_000)
            for text in texts:
                page.get_by_text(text, exact=True).first.wait_for(timeout=60_000)
            page.wait_for_load_state("networkidle", timeout=60_000)
            page.wait_for_timeout(2000)  # what moves has come to rest
        finally:
            page.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
