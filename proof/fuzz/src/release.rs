//! The list of a release, as a mirror sends it.

use taut_release::{BadRelease, MAX_LIST, Release, ReleaseKey, Version};

/// What is accepted has bounded parts and means the same when it is written again; without a signature nothing is accepted.
pub(crate) fn list(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for word in text.split([' ', '\n']) {
        if let Ok(version) = word.parse::<Version>() {
            assert_eq!(version.to_string(), word);
        }
        if let Ok(key) = word.parse::<ReleaseKey>() {
            assert_eq!(key.to_string().parse(), Ok(key));
            assert_eq!(Release::open(data, &[7; 64], &key), Err(BadRelease::Signature));
        }
    }
    let Ok(release) = Release::parse(data) else { return };
    assert!(data.len() <= MAX_LIST && release.programs.len() <= 64);
    for program in &release.programs {
        assert!(program.bytes > 0 && !program.file.contains('/') && !program.file.starts_with('.'));
        let found = release.program(&program.name, &program.architecture).map(|found| &found.name);
        assert_eq!(found, Some(&program.name));
    }
    assert_eq!(Release::parse(write(&release).as_bytes()), Ok(release));
}

fn write(release: &Release) -> String {
    let mut text = format!("taut-release 1\nversion {}\nmade {}\n", release.version, release.made);
    for program in &release.programs {
        let sum: String = program.sha256.iter().map(|byte| format!("{byte:02x}")).collect();
        text +=
            &format!("program {} {} {} {sum} {}\n", program.name, program.architecture, program.bytes, program.file);
    }
    text
}

/// Lists of releases, and a key.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    [
        format!("taut-release 1\nversion 0.3.0\nmade 1798502400\nprogram taut x86-64 2471936 {sum} taut_0.3.0_x86-64\nprogram taut-relay mips 9 {sum} r\n"),
        format!("taut-release 1\nmade 0\nlater words\nversion 0.2.0-dev.202611290412.a-b\nprogram t a 1 {sum} ../x\n"),
        String::from("taut-release 2\nversion 1.0.0 MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE="),
    ]
    .map(String::into_bytes)
    .to_vec()
}
