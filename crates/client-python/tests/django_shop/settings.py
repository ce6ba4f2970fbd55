"""The settings of `test_migrate_once.py`."""

import os

INSTALLED_APPS = ["holdfast.contrib.django", "shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["TEST_DATABASE"]}}
HOLDFAST = {"addresses": os.environ["TEST_ADDRESSES"].split(","), "ttl": 3, "session_prefix": "pod"}
USE_TZ = True
