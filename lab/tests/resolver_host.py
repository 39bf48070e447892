"""Marks of tests whose hosts have a resolver of their own."""

import pytest

from lab.nodes.resolver_host import is_unpacked


def needs(name):
    """Returns a mark that skips a test by name without this resolver."""
    return pytest.mark.skipif(not is_unpacked(name), reason=f"the resolver {name} is missing: run tools/resolvers")
