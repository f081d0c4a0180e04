# SPDX-License-Identifier: Apache-2.0
"""fsspec's own suite for implementations, on a volume (fsspec_test.sh): run by pytest, with the fsspec that has the suite."""
import os

import pytest
from fsspec.registry import filesystem

pytest.register_assert_rewrite("fsspec.tests.abstract.copy", "fsspec.tests.abstract.get", "fsspec.tests.abstract.put")
from fsspec.tests import abstract

SOURCE = os.environ.get("BRICKFS_TEST_SOURCE", "memory:64M")


class VolumeFixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self):
        fs = filesystem("brickfs", source=SOURCE, auto_mkdir=True, skip_instance_cache=True)
        yield fs
        fs.close()

    @pytest.fixture
    def fs_path(self):
        return "/suite"

    @pytest.fixture
    def fs_sanitize_path(self):
        return lambda path: path


class TestCopy(abstract.AbstractCopyTests, VolumeFixtures):
    pass


class TestGet(abstract.AbstractGetTests, VolumeFixtures):
    pass


class TestPut(abstract.AbstractPutTests, VolumeFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, VolumeFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, VolumeFixtures):
    pass
