use crate::inventory::Role;
use crate::policy::{IpSetTarget, Policy, Service};
use crate::selector::Selector;

/// Names for the rules of these tests.
const NAMES: &str = r#""groups": {"group:dev": ["ann@example.com", "bob@"]}, "tagOwners": {"tag:web": [], "tag:db": ["tag:web"]},
"hosts": {"box": "100.64.0.9", "lan": "10.0.0.0/8"}, "ipsets": {"ipset:all": ["add 10.0.0.0/8"]},"#;

fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Parses a policy with one rule of `acls`.
fn acl(rule: &str) -> Policy {
    policy(&format!("{{{NAMES} \"acls\": [{{\"action\": \"accept\", {rule}}}]}}"))
}

fn grant(rule: &str) -> Policy {
    policy(&format!("{{{NAMES} \"grants\": [{{{rule}}}]}}"))
}

/// Returns line, column, message and hint of the error in a text.
fn error(text: &str) -> (u32, u32, String, String) {
    let error = Policy::parse(text).expect_err(text);
    (error.line, error.column, error.message, error.hint.unwrap_or_default())
}

/// Returns message and hint of the error in a rule, which stands at the third line.
fn rule_error(section: &str, rule: &str) -> (String, String) {
    let action = if section == "acls" { "\"action\": \"accept\"," } else { "" };
    let (line, _, message, hint) = error(&format!("{{{NAMES}\n\"{section}\": [{{{action} {rule}}}]}}"));
    assert_eq!(line, 3, "{message}");
    (message, hint)
}

fn words(selectors: &[Selector]) -> String {
    selectors.iter().map(Selector::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_policy_needs_rules_or_the_word_that_there_are_none() {
    for text in ["{}", "{\"groups\": {}}", "{\"tests\": []}"] {
        let (line, column, message, hint) = error(text);
        assert_eq!((line, column, message.as_str()), (1, 1, "the policy has neither `acls` nor `grants`"));
        assert!(hint.contains("\"grants\": []"));
    }
    assert_eq!(policy("{\"acls\": []}").rules, []);
    assert_eq!(policy("// none\n{\"grants\": [],}").rules, []);
    assert_eq!(error("{\"acls\": null}").2, "`acls` must be a list in square brackets, not null");
    assert_eq!(error("[]").2, "the policy must be an object in braces, not a list");
}

#[test]
fn unknown_parts_are_errors_with_their_place() {
    let (line, column, message, hint) = error("{\n  \"acls\": [],\n  \"grnts\": [],\n}");
    assert_eq!(
        (line, column, message.as_str(), hint.as_str()),
        (3, 3, "the policy has no part `grnts`", "did you mean `grants`?")
    );
    assert!(error("{\"acls\": [], \"xyzzy\": 1}").3.starts_with("it can have `groups`, `tagOwners`"));
    for part in
        ["ssh", "nodeAttrs", "postures", "derpMap", "disableIPv4", "OneCGNATRoute", "randomizeClientPort", "sshTests"]
    {
        let (_, column, message, hint) = error(&format!("{{\"acls\": [], \"{part}\": []}}"));
        assert!(column == 14 && message.starts_with(&format!("Taut does not support `{part}`: ")), "{message}");
        assert!(hint.contains("docs/policy.md"));
    }
    for part in ["via", "app", "srcPosture"] {
        let (message, _) = rule_error("grants", &format!("\"src\": [], \"dst\": [], \"ip\": [\"*\"], \"{part}\": []"));
        assert!(message.starts_with(&format!("Taut does not support `{part}`")), "{message}");
    }
    assert_eq!(rule_error("acls", "\"src\": [], \"dst\": [], \"sorce\": 1").0, "a rule of `acls` has no part `sorce`");
}

#[test]
fn names_of_parts_are_known_in_any_case_and_once() {
    let policy = policy(
        r#"{"ACLs": [{"Action": "accept", "Users": ["*"], "Ports": ["*:22"]}], "Groups": {}, "TagOwners": {}, "Hosts": {}}"#,
    );
    assert_eq!(policy.rules.len(), 1);
    assert_eq!(error("{\"acls\": [],\n \"ACLs\": []}").2, "`ACLs` stands twice; it is already at line 1");
    assert_eq!(
        rule_error("acls", "\"src\": [], \"users\": [], \"dst\": []").0,
        "`users` stands twice; it is already at line 3"
    );
}

#[test]
fn groups_have_logins_and_no_groups() {
    let groups = policy(
        r#"{"groups": {"group:dev": ["ann@example.com", " bob@github ", "eve@"], "group:none": []}, "acls": []}"#,
    )
    .groups;
    assert_eq!(groups["group:dev"], ["ann@example.com", "bob@github", "eve@"]);
    assert_eq!(groups["group:none"], Vec::<String>::new());
    for (groups, message) in [
        ("{\"dev\": []}", "`dev` is not a name of this section"),
        ("{\"group:\": []}", "`group:` is not a name of this section"),
        ("{\"group:a b\": []}", "`group:a b` is not a name of this section"),
        ("{\"group:a\": [\"group:b\"]}", "`group:b` is a group, and a group cannot contain groups"),
        ("{\"group:a\": [\"ann\"]}", "`ann` is not a login"),
        ("{\"group:a\": [\"user:*@example.com\"]}", "`user:*@example.com` is not a login"),
        ("{\"group:a\": \"ann@example.com\"}", "a group must be a list in square brackets, not a text"),
        ("{\"group:a\": [1]}", "a member of a group must be a text in double quotes, not a number"),
        ("{\"group:a\": [], \"group:a\": []}", "`group:a` stands twice; it is already at line 1"),
    ] {
        assert_eq!(error(&format!("{{\"acls\": [], \"groups\": {groups}}}")).2, message);
    }
}

#[test]
fn tags_have_owners() {
    let owners = policy(
        r#"{"tagOwners": {"tag:a": [], "tag:b": ["tag:z", "ann@example.com", "group:g", "autogroup:admin", "autogroup:member", "user:*@example.com"], "tag:z": ["tag:z"]},
            "groups": {"group:g": []}, "acls": []}"#,
    )
    .tag_owners;
    assert_eq!(
        words(&owners["tag:b"]),
        "tag:z ann@example.com group:g autogroup:admin autogroup:member user:*@example.com"
    );
    for (owners, message) in [
        ("{\"web\": []}", "`web` is not a name of this section"),
        ("{\"tag:1\": []}", "`tag:1` is not a tag"),
        ("{\"tag:a_b\": []}", "`tag:a_b` is not a tag"),
        ("{\"tag:a\": [\"*\"]}", "`*` cannot be here; name users, groups, autogroups of people, or tags"),
        ("{\"tag:a\": [\"10.0.0.1\"]}", "`10.0.0.1` cannot be here; name users, groups, autogroups of people, or tags"),
        (
            "{\"tag:a\": [\"autogroup:self\"]}",
            "`autogroup:self` cannot be here; name users, groups, autogroups of people, or tags",
        ),
        ("{\"tag:a\": [\"tag:b\"]}", "`tag:b` is not defined in `tagOwners`"),
        ("{\"tag:a\": [\"group:g\"]}", "`group:g` is not defined in `groups`"),
    ] {
        assert_eq!(error(&format!("{{\"acls\": [], \"tagOwners\": {owners}}}")).2, message);
    }
    assert!(policy("{\"acls\": [], \"tagOwners\": {\"tag:A-1\": []}}").tag_owners.contains_key("tag:A-1"));
}

#[test]
fn hosts_are_addresses() {
    let hosts = policy(r#"{"hosts": {"box": "100.64.0.1", "lan": " 10.1.0.0/8", "six": "fd00::1"}, "acls": []}"#).hosts;
    assert_eq!(hosts["box"].to_string(), "100.64.0.1/32");
    assert_eq!(hosts["lan"].to_string(), "10.0.0.0/8");
    assert_eq!(hosts["six"].to_string(), "fd00::1/128");
    for (hosts, message) in [
        ("{\"a@b\": \"10.0.0.1\"}", "`a@b` is not a name for a host"),
        ("{\"a:b\": \"10.0.0.1\"}", "`a:b` is not a name for a host"),
        ("{\"a/8\": \"10.0.0.1\"}", "`a/8` is not a name for a host"),
        ("{\"a b\": \"10.0.0.1\"}", "`a b` is not a name for a host"),
        ("{\"*\": \"10.0.0.1\"}", "`*` is not a name for a host"),
        ("{\"\": \"10.0.0.1\"}", "`` is not a name for a host"),
        ("{\"10.0.0.2\": \"10.0.0.1\"}", "`10.0.0.2` is an address, not a name for one"),
        ("{\"a\": \"10.0.0\"}", "`10.0.0` is not an address"),
        ("{\"a\": \"10.0.0.0/40\"}", "`10.0.0.0/40` is not an address"),
        ("{\"a\": [\"10.0.0.1\"]}", "a host must be a text in double quotes, not a list"),
    ] {
        assert_eq!(error(&format!("{{\"acls\": [], \"hosts\": {hosts}}}")).2, message);
    }
}

#[test]
fn ip_sets_have_steps() {
    let sets = policy(
        r#"{"hosts": {"box": "10.0.0.1"}, "acls": [],
            "ipsets": {"ipset:a": ["10.0.0.0/8", "add fd00::5-fd00::9", "remove host:box", "add  ipset:b", "remove autogroup:internet"], "ipset:b": ["192.0.2.7"]}}"#,
    )
    .ipsets;
    let steps: Vec<bool> = sets["ipset:a"].iter().map(|step| step.add).collect();
    assert_eq!(steps, [true, true, false, true, false]);
    let target = |place: usize| &sets["ipset:a"][place].target;
    assert!(
        matches!(target(1), IpSetTarget::Range(first, last) if first.to_string() == "fd00::5" && last.to_string() == "fd00::9")
    );
    assert_eq!(target(2), &IpSetTarget::Host(String::from("box")));
    assert_eq!(target(3), &IpSetTarget::Set(String::from("ipset:b")));
    assert_eq!(target(4), &IpSetTarget::Internet);
    for (sets, message) in [
        ("{\"a\": []}", "`a` is not a name of this section"),
        ("{\"ipset:a\": [\"sub 10.0.0.1\"]}", "`sub` is not a step of an IP set"),
        ("{\"ipset:a\": [\"add tag:web\"]}", "`tag:web` cannot be in an IP set"),
        ("{\"ipset:a\": [\"autogroup:member\"]}", "`autogroup:member` cannot be in an IP set"),
        ("{\"ipset:a\": [\"host:x\"]}", "`host:x` is not defined in `hosts`"),
        ("{\"ipset:a\": [\"ipset:x\"]}", "`ipset:x` is not defined in `ipsets`"),
        ("{\"ipset:a\": [\"10.0.0.9-10.0.0.1\"]}", "`10.0.0.9-10.0.0.1` cannot be in an IP set"),
        ("{\"ipset:a\": [\"10.0.0.9-fd00::\"]}", "`10.0.0.9-fd00::` cannot be in an IP set"),
        ("{\"ipset:a\": [\"ipset:a\"]}", "`ipset:a` contains itself, through ipset:a"),
        (
            "{\"ipset:a\": [\"ipset:b\"], \"ipset:b\": [\"remove ipset:a\"]}",
            "`ipset:a` contains itself, through ipset:a, ipset:b",
        ),
    ] {
        assert_eq!(error(&format!("{{\"acls\": [], \"ipsets\": {sets}}}")).2, message);
    }
}

#[test]
fn ip_sets_are_bounded() {
    let chain = |last: u32| {
        let sets: String = (0..last).map(|set| format!("\"ipset:{set:02}\": [\"ipset:{:02}\"],", set + 1)).collect();
        format!("{{\"acls\": [], \"ipsets\": {{{sets} \"ipset:{last:02}\": []}}}}")
    };
    assert!(Policy::parse(&chain(32)).is_ok());
    assert_eq!(error(&chain(33)).2, "IP sets contain each other more than 32 deep");
    let steps =
        |count: usize| format!("{{\"acls\": [], \"ipsets\": {{\"ipset:a\": [{}]}}}}", "\"10.0.0.1\",".repeat(count));
    assert!(Policy::parse(&steps(4_096)).is_ok());
    assert_eq!(error(&steps(4_097)).2, "the IP sets have more than 4096 entries together");
    // Each set has twice the ranges of the one before: the set before, and a copy of it with gaps between.
    let gaps =
        |count: u32| (0..count).map(|at| format!("\"10.{}.{}.0\"", at / 256, at % 256)).collect::<Vec<_>>().join(",");
    let text = format!(
        "{{\"acls\": [], \"ipsets\": {{\"ipset:a\": [{}], \"ipset:b\": [\"0.0.0.0/0\", \"remove ipset:a\", \"::1-::5\"]}}}}",
        gaps(4_000)
    );
    assert!(Policy::parse(&text).is_ok());
}

#[test]
fn approvers_are_people_and_tags() {
    let policy = policy(
        r#"{"tagOwners": {"tag:r": []}, "acls": [],
            "autoApprovers": {"routes": {"10.0.0.0/8": ["tag:r", "autogroup:member"], "fd00::1": []}, "exitNode": ["ann@example.com"]}}"#,
    );
    assert_eq!(policy.route_approvers[0].0.to_string(), "10.0.0.0/8");
    assert_eq!(words(&policy.route_approvers[0].1), "tag:r autogroup:member");
    assert_eq!(policy.route_approvers[1].0.to_string(), "fd00::1/128");
    assert_eq!(words(&policy.exit_approvers), "ann@example.com");
    for (text, message) in [
        ("{\"routes\": {\"lan\": []}}", "`lan` is not an address"),
        ("{\"routes\": {\"10.0.0.0/8\": [\"tag:x\"]}}", "`tag:x` is not defined in `tagOwners`"),
        ("{\"exitNode\": [\"*\"]}", "`*` cannot be here; name users, groups, autogroups of people, or tags"),
        ("{\"exitNodes\": []}", "`autoApprovers` has no part `exitNodes`"),
    ] {
        assert_eq!(error(&format!("{{\"acls\": [], \"autoApprovers\": {text}}}")).2, message);
    }
}

#[test]
fn sources_of_every_kind() {
    let all = r#""src": ["*", "ann@example.com", " tag:web ", "group:dev", "group:it@example.com", "autogroup:member", "autogroup:members", "autogroup:tagged",
        "autogroup:owner", "autogroup:admin", "autogroup:auditor", "autogroup:it-admin", "autogroup:network-admin", "autogroup:billing-admin", "autogroup:shared",
        "autogroup:danger-all", "user:*@Example.com", "10.0.0.1", "10.0.0.0/8", "fd00::1", "box", "ipset:all"], "dst": []"#;
    let policy = acl(all);
    assert_eq!(
        words(&policy.rules[0].src),
        "* ann@example.com tag:web group:dev group:it@example.com autogroup:member autogroup:member autogroup:tagged autogroup:owner autogroup:admin \
         autogroup:auditor autogroup:it-admin autogroup:network-admin autogroup:billing-admin autogroup:shared autogroup:danger-all user:*@example.com \
         10.0.0.1 10.0.0.0/8 fd00::1 box ipset:all"
    );
    assert!(policy.rules[0].src.contains(&Selector::Role(Role::NetworkAdmin)));
}

#[test]
fn sources_that_are_not_known_are_errors() {
    for (word, message, hint) in [
        ("group:deu", "`group:deu` is not defined in `groups`", "did you mean `group:dev`?"),
        ("group:@x", "`group:@x` is not defined in `groups`", "define it in `groups`"),
        ("tag:wep", "`tag:wep` is not defined in `tagOwners`", "did you mean `tag:web`?"),
        ("ipset:x", "`ipset:x` is not defined in `ipsets`", "define it in `ipsets`"),
        ("bax", "`bax` is not defined in `hosts`", "did you mean `box`?"),
        ("10.0.0.0/33", "`10.0.0.0/33` is not defined in `hosts`", "define it in `hosts`"),
        ("host:box", "`host:box` is a host as IP sets write it", "write `box` in rules and tests"),
        ("autogroup:membr", "there is no `autogroup:membr`", "did you mean `autogroup:member`?"),
        ("autogroup:nonroot", "there is no `autogroup:nonroot`", "autogroups are member"),
        ("autogroup:internet", "`autogroup:internet` can only be a destination", ""),
        ("autogroup:self", "`autogroup:self` can only be a destination", ""),
        ("user:ann", "`user:ann` names no domain", "write user:*@example.com, or the user without `user:`"),
        ("user:*@", "`user:*@` names no domain", "write user:*@example.com, or the user without `user:`"),
        (
            "user:a*@example.com",
            "`user:a*@example.com` names no domain",
            "write user:*@example.com, or the user without `user:`",
        ),
        (
            "user:*@GMAIL.com",
            "`user:*@GMAIL.com` stands for strangers: anyone can have an address at GMAIL.com",
            "name the people in a group",
        ),
        (
            "svc:web",
            "Taut does not support `svc:web`: there are no services with addresses of their own",
            "name the nodes",
        ),
        ("x:y", "`x:y` is neither a known kind of name nor an address", "kinds of names are"),
    ] {
        let (found, why) = rule_error("acls", &format!("\"src\": [\"{word}\"], \"dst\": []"));
        assert_eq!(found, message);
        assert!(why.starts_with(hint), "{word}: {why}");
    }
    assert_eq!(
        rule_error("acls", "\"src\": [1], \"dst\": []").0,
        "an entry of `src` must be a text in double quotes, not a number"
    );
    assert_eq!(
        rule_error("acls", "\"src\": \"*\", \"dst\": []").0,
        "`src` must be a list in square brackets, not a text"
    );
}

#[test]
fn rules_need_their_parts() {
    assert_eq!(rule_error("acls", "\"src\": []").0, "a rule of `acls` has no `dst`");
    assert_eq!(rule_error("acls", "\"dst\": []").0, "a rule of `acls` has no `src`");
    assert_eq!(error("{\"acls\": [{\"src\": [], \"dst\": []}]}").2, "a rule of `acls` has no `action`");
    assert_eq!(error("{\"acls\": [{\"action\": \"deny\", \"src\": [], \"dst\": []}]}").2, "`action` cannot be `deny`");
    assert_eq!(rule_error("grants", "\"src\": [], \"dst\": []").0, "a rule of `grants` has no `ip`");
    assert_eq!(
        rule_error("grants", "\"src\": [], \"dst\": [], \"ip\": []").0,
        "`ip` is empty, so the grant opens nothing"
    );
}

#[test]
fn destinations_have_ports() {
    let policy = acl(
        r#""src": ["*"], "dst": ["*:*", "tag:web:80,443", "ann@example.com:22", "group:dev:1-9", "box:1", "lan:2", "10.0.0.1:3", "10.0.0.0/8:4",
        "[fd00::1]:5", "[fd00::]/64:6", "fd00::1:7", "ipset:all:8", "autogroup:self:9", "autogroup:internet:*", "autogroup:member:10", "autogroup:tagged:11"]"#,
    );
    let text: Vec<String> =
        policy.rules[0].access.iter().map(|access| format!("{}={}", words(&access.dst), access.services[0])).collect();
    assert_eq!(
        text.join(" "),
        "*=* tag:web=80,443 ann@example.com=22 group:dev=1-9 box=1 lan=2 10.0.0.1=3 10.0.0.0/8=4 fd00::1=5 fd00::/64=6 fd00::1=7 ipset:all=8 \
         autogroup:self=9 autogroup:internet=* autogroup:member=10 autogroup:tagged=11"
    );
    for (word, message) in [
        ("tag:web", "`tag:web`: `web` is not a port; ports are numbers up to 65535"),
        ("box", "`box` has no ports; write HOST:PORTS, such as box:22 or box:*"),
        ("tag:web:ssh", "`tag:web:ssh`: `ssh` is not a port; ports are numbers up to 65535"),
        ("tag:web:0", "`tag:web:0`: port 0 cannot be opened; write * for all ports"),
        ("tag:web:9-8", "`tag:web:9-8`: the port range 9-8 ends before it starts"),
        ("[box]:22", "`[box]:22` has brackets, which belong around an IPv6 address: [fd00::1]:22"),
        ("tag:x:22", "`tag:x` is not defined in `tagOwners`"),
        ("autogroup:danger-all:*", "`autogroup:danger-all` can only be a source"),
        ("autogroup:shared:*", "`autogroup:shared` can only be a source"),
    ] {
        assert_eq!(rule_error("acls", &format!("\"src\": [\"*\"], \"dst\": [\"{word}\"]")).0, message);
    }
}

#[test]
fn protocols_have_names_or_numbers() {
    let service = |proto: &str| {
        acl(&format!("\"proto\": \"{proto}\", \"src\": [\"*\"], \"dst\": [\"*:*\"]")).rules[0].access[0].services[0]
            .clone()
    };
    for (text, number) in [("tcp", Some(6)), ("UDP", Some(17)), ("icmp", Some(1)), ("47", Some(47)), ("", None)] {
        assert_eq!(service(text), Service { proto: number, ports: vec![(0, 65535)] }, "{text}");
    }
    assert_eq!(
        acl("\"proto\": \"sctp\", \"src\": [], \"dst\": [\"*:22\"]").rules[0].access[0].services[0].proto,
        Some(132)
    );
    for (proto, message) in [
        ("\"http\"", "`http` is not a protocol"),
        ("\"*\"", "`*` is not a protocol"),
        ("\"0\"", "`0` is not a protocol"),
        ("\"256\"", "`256` is not a protocol"),
        ("6", "`proto` must be a text in double quotes, not a number"),
        ("\"icmp\"", "icmp has no ports"),
        ("\"47\"", "gre has no ports"),
    ] {
        assert_eq!(rule_error("acls", &format!("\"proto\": {proto}, \"src\": [], \"dst\": [\"*:22\"]")).0, message);
    }
}

#[test]
fn grants_have_services() {
    let policy = grant(
        r#""src": ["*"], "dst": ["*", "tag:web", "fd00::1", "box"], "ip": ["*", "443", "80-90", "80,443", "tcp:22", "udp:*", "icmp:*", "132:5-6"]"#,
    );
    let access = &policy.rules[0].access[0];
    assert_eq!(words(&access.dst), "* tag:web fd00::1 box");
    let services: Vec<String> = access.services.iter().map(Service::to_string).collect();
    assert_eq!(services, ["*", "443", "80-90", "80,443", "tcp:22", "udp:*", "icmp:*", "sctp:5-6"]);
    for (ip, message, hint) in [
        (
            "tcp",
            "`tcp`: `tcp` is not a port; ports are numbers up to 65535",
            "write \"tcp:*\" for all of this protocol",
        ),
        ("0", "`0`: port 0 cannot be opened; write * for all ports", ""),
        ("*:22", "`*` is not a protocol", "write tcp"),
        ("tcp:22:23", "`tcp:22:23`: `22:23` is not a port; ports are numbers up to 65535", ""),
        ("icmp:8", "icmp has no ports", "write * instead of the ports"),
        ("http", "`http`: `http` is not a port; ports are numbers up to 65535", ""),
        ("", "``: `` is not a port; ports are numbers up to 65535", ""),
    ] {
        let (found, why) = rule_error("grants", &format!("\"src\": [], \"dst\": [], \"ip\": [\"{ip}\"]"));
        assert_eq!(found, message);
        assert!(why.starts_with(hint) && (hint.is_empty() == why.is_empty()), "{ip}: {why}");
    }
    for prefix in ["0.0.0.0/0", "::/0"] {
        let (message, hint) = rule_error("grants", &format!("\"src\": [], \"dst\": [\"{prefix}\"], \"ip\": [\"*\"]"));
        assert_eq!(message, format!("`{prefix}` cannot be a destination of a grant"));
        assert!(hint.contains("autogroup:internet"));
    }
    assert_eq!(acl("\"src\": [], \"dst\": [\"0.0.0.0/0:*\"]").rules.len(), 1, "in acls it can");
}

#[test]
fn self_is_for_people() {
    for word in [
        "ann@example.com",
        "group:dev",
        "autogroup:member",
        "autogroup:admin",
        "user:*@example.com",
        "autogroup:shared",
    ] {
        acl(&format!("\"src\": [\"{word}\"], \"dst\": [\"autogroup:self:*\"]"));
        grant(&format!("\"src\": [\"{word}\"], \"dst\": [\"autogroup:self\"], \"ip\": [\"*\"]"));
    }
    acl("\"src\": [\"*\"], \"dst\": [\"autogroup:self:*\"]");
    let of_grant = |word: &str| {
        rule_error(
            "grants",
            &format!("\"src\": [\"{word}\"], \"dst\": [\"tag:web\", \"autogroup:self\"], \"ip\": [\"*\"]"),
        )
    };
    assert_eq!(of_grant("*").0, "`autogroup:self` is for people, and `*` is a source here");
    for word in ["tag:web", "autogroup:tagged", "10.0.0.1", "box", "ipset:all", "autogroup:danger-all"] {
        let message = format!("`autogroup:self` is for people, and `{word}` is a source here");
        assert_eq!(of_grant(word).0, message);
        assert_eq!(
            rule_error("acls", &format!("\"src\": [\"ann@example.com\", \"{word}\"], \"dst\": [\"autogroup:self:*\"]"))
                .0,
            message
        );
    }
}

#[test]
fn tests_are_about_one_connection() {
    let policy = policy(&format!(
        r#"{{{NAMES} "acls": [], "tests": [
            {{"src": "ann@example.com", "accept": ["tag:web:80", "[fd00::1]:22"], "deny": ["box:1"]}},
            {{"src": "tag:web", "proto": "icmp", "allow": ["group:dev:0"]}}
        ]}}"#
    ));
    assert_eq!((policy.tests[0].line, policy.tests[0].accept[1].port, policy.tests[0].deny.len()), (3, 22, 1));
    assert_eq!((policy.tests[1].proto, policy.tests[1].accept[0].port), (Some(1), 0));
    for (test, message) in [
        ("\"accept\": [\"box:1\"]", "an entry of `tests` has no `src`"),
        ("\"src\": \"box\"", "a test without `accept` and `deny` tests nothing"),
        ("\"src\": \"box\", \"accept\": []", "a test without `accept` and `deny` tests nothing"),
        (
            "\"src\": \"*\", \"accept\": [\"box:1\"]",
            "`*` is too broad for a test; name a user, a group, a tag, a host or an address",
        ),
        ("\"src\": \"lan\", \"accept\": [\"box:1\"]", "`lan` is a prefix; a test is about one address"),
        ("\"src\": \"box\", \"accept\": [\"10.0.0.1/32:1\"]", "`10.0.0.1/32` is a prefix; a test is about one address"),
        (
            "\"src\": \"box\", \"accept\": [\"ipset:all:1\"]",
            "`ipset:all` is too broad for a test; name a user, a group, a tag, a host or an address",
        ),
        (
            "\"src\": \"box\", \"deny\": [\"autogroup:self:1\"]",
            "`autogroup:self` is too broad for a test; name a user, a group, a tag, a host or an address",
        ),
        (
            "\"src\": \"box\", \"deny\": [\"autogroup:internet:1\"]",
            "`autogroup:internet` is too broad for a test; name a user, a group, a tag, a host or an address",
        ),
        ("\"src\": \"box\", \"accept\": [\"box:1,2\"]", "`box:1,2`: `1,2` is not one port"),
        ("\"src\": \"box\", \"accept\": [\"box:1-2\"]", "`box:1-2`: `1-2` is not one port"),
        ("\"src\": \"box\", \"accept\": [\"box:*\"]", "`box:*`: `*` is not one port"),
        ("\"src\": \"box\", \"accept\": [\"box:0\"]", "`box:0`: there is no port 0"),
        ("\"src\": \"box\", \"proto\": \"icmp\", \"accept\": [\"box:8\"]", "`box:8`: icmp has no ports"),
        ("\"src\": \"box\", \"accept\": [\"tag:x:1\"]", "`tag:x` is not defined in `tagOwners`"),
        (
            "\"src\": \"box\", \"srcPostureAttrs\": {}",
            "Taut does not support `srcPostureAttrs`: there are no device postures",
        ),
    ] {
        assert_eq!(error(&format!("{{{NAMES} \"acls\": [], \"tests\": [{{{test}}}]}}")).2, message);
    }
}

#[test]
fn numbers_of_rules_and_tests_are_bounded() {
    let rules = |count: usize| format!("{{\"grants\": [{}]}}", "{\"src\":[],\"dst\":[],\"ip\":[\"*\"]},".repeat(count));
    assert_eq!(policy(&rules(10_000)).rules.len(), 10_000);
    assert_eq!(error(&rules(10_001)).2, "the policy has more than 10000 rules");
    let tests = |count: usize| {
        format!("{{\"acls\": [], \"tests\": [{}]}}", "{\"src\":\"10.0.0.1\",\"deny\":[\"10.0.0.1:1\"]},".repeat(count))
    };
    assert_eq!(policy(&tests(1_000)).tests.len(), 1_000);
    assert_eq!(error(&tests(1_001)).2, "the policy has more than 1000 tests");
    let targets = |count: usize| {
        format!(
            "{{\"acls\": [], \"tests\": [{{\"src\":\"10.0.0.1\",\"deny\":[{}]}}]}}",
            "\"10.0.0.1:1\",".repeat(count)
        )
    };
    assert_eq!(policy(&targets(1_000)).tests[0].deny.len(), 1_000);
    assert_eq!(error(&targets(1_001)).2, "a test has more than 1000 destinations");
}

#[test]
fn rules_know_where_they_stand() {
    let policy = policy(
        "{\n\"grants\": [\n\n{\"src\":[],\"dst\":[],\"ip\":[\"*\"]}],\n\"acls\": [{\"action\":\"accept\",\"src\":[],\"dst\":[]},\n{\"action\":\"accept\",\"src\":[],\"dst\":[]}]}",
    );
    let places: Vec<_> =
        policy.rules.iter().map(|rule| (rule.origin.section, rule.origin.number, rule.origin.line)).collect();
    assert_eq!(places, [("acls", 1, 5), ("acls", 2, 6), ("grants", 1, 4)]);
}
