"""Says that it runs."""

import os
from pathlib import Path
from typing import Any

from django.db import migrations


def run(apps: Any, editor: Any) -> None:
    with Path(os.environ["TEST_OUTPUT"]).open("a") as file:
        file.write(f"0002 {os.getpid()}\n")


class Migration(migrations.Migration):  # type: ignore[misc]
    dependencies = [("shop", "0001_slow")]
    operations = [migrations.RunPython(run)]
