"""The links of the lab: the contents of `profiles.toml`, and the messages for an invalid file."""

import pytest

from lab.hosts import netem, profiles
from lab.hosts.site import lay_out
from lab.hosts.wait import LabError
from lab.traffic.flow import ping


def _file(tmp_path, text):
    path = tmp_path / "profiles.toml"
    path.write_text(text)
    return path


def test_the_named_profiles_are_there_with_their_figures():
    known = profiles.load()
    low, medium, high = (known[name] for name in ("low", "medium", "high"))
    assert low.words("right") == low.words("left") == "base 0.3ms delay 2ms jitter 2ms loss 0.25% reorder 0.5% 25%"
    assert medium.words("right").endswith("delay 4ms jitter 7ms loss 1% reorder 2.5% 50%")
    assert high.words("right").endswith("delay 6ms jitter 15ms loss 2.5% reorder 5% 50%")
    assert known["jumbo"].mtu == 9000 and known["mtu-1280"].path_mtu == 1280
    assert not known["baseline"].emulated and known["baseline-1g"].emulated
    assert {"wifi", "lte", "satellite", "transatlantic", "shallow", "deep"} <= set(known)


def test_a_round_trip_is_the_base_and_the_mean_of_both_ways():
    known = profiles.load()
    assert known["baseline"].round_trip_ms == 0
    assert known["low-loss"].round_trip_ms == pytest.approx(2 * 2.3)
    # 4 ± 7 ms, cut off at zero: eleven fourteenths of the draws take 5.5 ms on average, the others none.
    assert known["medium"].round_trip_ms == pytest.approx(2 * (0.3 + 11 / 14 * 5.5))
    assert known["lte"].round_trip_ms == pytest.approx(0.3 + 25 + 0.3 + 20)


def test_loss_is_given_only_where_nothing_else_limits_tcp():
    known = profiles.load()
    assert [known[name].loss for name in ("low-loss", "medium-loss", "high-loss")] == [0.0025, 0.01, 0.025]
    assert [known[name].loss for name in ("baseline", "low", "deep", "wifi")] == [None] * 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[one]\ntitle='a'\nabout='b'\nplain=true", "the base of all links is missing"),
        ("base='1ms'\n[one]\ntitle='a'", r"\[one\]: about is missing"),
        ("base='1ms'\n[one]\ntitle='a'\nabout='b'", r"\[one\]: tell `both`"),
        ("base='1ms'\n[one]\ntitle='a'\nabout='b'\nright='loss 1%'", r"\[one\]: tell `both`"),
        ("base='1ms'\n[one]\ntitle='a'\nabout='b'\nboth='loss 1%'\nplain=true", r"\[one\]: a plain link has no words"),
        ("base='1ms'\n[one]\ntitle='a'\nabout='b'\nplain=true\nspeed=1", r"\[one\]: speed: no such key"),
        ("base='1ms'\none=1", r"\[one\]: is no table"),
        ("base=", "profiles.toml: Invalid value"),
    ],
)
def test_an_error_in_the_file_is_named(tmp_path, text, why):
    with pytest.raises(LabError, match=why):
        profiles.load(_file(tmp_path, text))


def test_an_unknown_profile_is_refused_with_the_known_names():
    with pytest.raises(LabError, match="no profile is called hihg; there are: baseline, baseline-1g, low"):
        profiles.chosen(["low", "hihg"])
    assert [profile.name for profile in profiles.chosen(["high", "low"])] == ["high", "low"]


def test_netem_gets_equivalent_arguments():
    known = profiles.load()
    assert " ".join(netem.words(known["medium"].words("right"))) == "delay 4300us 7ms loss 1% reorder 2.5% 50%"
    assert " ".join(netem.words("base 0.3ms rate 10mbit loss 1% 25% duplicate 2%")) == "delay 300us loss 1% 25% duplicate 2% rate 10mbit"
    with pytest.raises(LabError, match="netem has no equivalent for queue, keep-order"):
        netem.words(known["wifi"].words("right"))


def test_netem_is_at_both_hosts(lab):
    if not netem.available():
        pytest.skip("this kernel has no netem: modprobe sch_netem")
    site = lay_out(lab, profiles.load()["high-loss"], placement="netem")
    answers = ping(site.hosts[0], site.hosts[1].ipv4, count=20, interval=0.05)
    assert answers["received"] and site.cables is None
    for host in site.hosts:
        assert "netem" in host.run("tc", "qdisc", "show", "dev", "eth0").stdout
