//! How this program was installed: a package manager replaces what it owns, and everything else is a plain file.

use std::fs;
use std::path::Path;

use taut_release::Version;

/// Largest list of packages that is searched, 16 MiB: that of a large Alpine system has two.
const LARGEST: u64 = 16 << 20;

/// How this program was installed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// By hand or by `taut service install`: a file that nobody else replaces.
    Plain,
    /// By a package. The command takes a file of the release.
    Package(&'static str),
    /// In a directory of the distribution, by something that is not known.
    System,
    /// In a container, whose image is replaced as a whole.
    Container,
}

impl Place {
    /// Looks at the system below `root` for who owns `program`.
    pub(super) fn find(program: &Path, root: &Path) -> Self {
        let below = |path: &str| root.join(path.trim_start_matches('/'));
        let text = program.to_string_lossy();
        // A program beside that of the package is a plain file.
        let lists =
            |path: &str| fs::read_to_string(below(path)).is_ok_and(|list| list.lines().any(|line| line == text));
        if lists("/var/lib/dpkg/info/taut.list") {
            return Self::Package("apt install ./taut_*.deb");
        }
        if lists("/usr/lib/opkg/info/taut.list") {
            return Self::Package("opkg install /tmp/taut_*.ipk");
        }
        if lists("/usr/lib/opkg/info/taut-tiny.list") {
            return Self::Package("opkg install /tmp/taut-tiny_*.ipk");
        }
        let is_in_system = ["/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/"].iter().any(|folder| text.starts_with(folder));
        if !is_in_system {
            return Self::Plain;
        }
        // An image has the program there; one that a user copied into a container is a plain file.
        if below("/run/.containerenv").exists() || below("/.dockerenv").exists() {
            return Self::Container;
        }
        let apk = below("/lib/apk/db/installed");
        let is_small = apk.metadata().is_ok_and(|found| found.len() <= LARGEST);
        if is_small && fs::read_to_string(&apk).is_ok_and(|list| list.lines().any(|line| line == "P:taut")) {
            return Self::Package("apk add --allow-untrusted ./taut_*.apk");
        }
        if below("/var/lib/pacman/local").exists() {
            return Self::Package("pacman -U taut_*.pkg.tar.zst");
        }
        if ["/usr/lib/sysimage/rpm", "/var/lib/rpm"].iter().any(|path| below(path).exists())
            && !below("/var/lib/dpkg/status").exists()
        {
            return Self::Package("dnf upgrade ./taut_*.rpm");
        }
        Self::System
    }

    /// Returns the name in JSON.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Package(_) => "package",
            Self::System => "system",
            Self::Container => "container",
        }
    }

    /// Says how a host gets this version.
    pub(super) fn advice(&self, version: &Version) -> String {
        match self {
            Self::Plain => String::from("`taut update --install --yes` installs it"),
            Self::Package(command) => {
                format!("a package owns this program: download the one of taut {version}, then `{command}`")
            }
            Self::System => String::from(
                "this program is in a directory of the distribution: replace it as it was installed, or copy it to /usr/local/bin and run `taut update` there",
            ),
            Self::Container => {
                format!("this is a container: pull the image of taut {version}, and start it in place of this one")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_owns_what_it_lists() {
        let root = std::env::temp_dir().join(format!("taut-place-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let find = |program: &str| Place::find(Path::new(program), &root);
        assert_eq!((find("/usr/local/bin/taut"), find("/usr/bin/taut")), (Place::Plain, Place::System));
        write("lib/apk/db/installed", "P:busybox\n\nP:taut\n");
        assert_eq!(find("/usr/bin/taut"), Place::Package("apk add --allow-untrusted ./taut_*.apk"));
        write("var/lib/dpkg/info/taut.list", "/.\n/usr\n/usr/bin/taut\n");
        assert_eq!(find("/usr/bin/taut"), Place::Package("apt install ./taut_*.deb"));
        assert_eq!(find("/usr/local/bin/taut"), Place::Plain);
        fs::remove_file(root.join("var/lib/dpkg/info/taut.list")).unwrap();
        write("run/.containerenv", "");
        assert_eq!((find("/usr/bin/taut"), find("/usr/local/bin/taut")), (Place::Container, Place::Plain));
        fs::remove_dir_all(&root).unwrap();
    }
}
