# SPDX-License-Identifier: Apache-2.0
"""What programs on several machines did to one volume, and whether one volume can have answered so. See calls.py and judge.py."""
