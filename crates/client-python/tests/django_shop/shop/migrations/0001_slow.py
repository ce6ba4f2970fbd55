"""Says that it runs, and takes its time; outside of a transaction, so that a paused process locks nothing."""

import os
import time
from pathlib import Path
from typing import Any

from django.db import migrations


def run(apps: Any, editor: Any) -> None:
    with Path(os.environ["TEST_OUTPUT"]).open("a") as file:
        file.write(f"0001 {os.getpid()}\n")
    time.sleep(float(os.environ["TEST_SECONDS"]))


class Migration(migrations.Migration):  # type: ignore[misc]
    atomic = False
    operations = [migrations.RunPython(run, elidable=True)]
