"""Names of login nodes, as people write them."""

import pytest

from pilotage.adapters.computing.batch.options import ssh_address
from pilotage.adapters.computing.slurm import Slurm


@pytest.mark.parametrize(
    ("name", "user", "host", "port"),
    [
        ("cluster", "", "cluster", 0),
        ("me@login.example", "me", "login.example", 0),
        ("login.example:2222", "", "login.example", 2222),
        ("me@login.example:2222", "me", "login.example", 2222),
        ("me@10.0.0.1:22", "me", "10.0.0.1", 22),
        ("fe80::1", "", "fe80::1", 0),
        ("me@[fe80::1]", "me", "fe80::1", 0),
        ("me@[fe80::1]:2222", "me", "fe80::1", 2222),
    ],
)
def test_a_login_node_may_be_named_with_its_port(name: str, user: str, host: str, port: int) -> None:
    assert ssh_address(name) == (user, host, port)
    Slurm({"ssh": name})


@pytest.mark.parametrize("name", ["host:", "host:port", "host:0", "host:65536", "[fe80::1", "me@", "@"])
def test_what_is_no_address_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="ssh"):
        Slurm({"ssh": name})
