//! Opens the operator's browser.
//!
//! All users of a machine can read the arguments of its processes. So an address with a secret in it is never an
//! argument: the browser opens a file that only the operator can read, and that file redirects to the address.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::host::random;

/// Opens a public address. Returns false if there is no browser.
pub(crate) fn open(address: &str) -> bool {
    has_display() && open::that_detached(address).is_ok()
}

/// A file that redirects a browser to an address. Dropping this removes the file.
pub(crate) struct Handover {
    folder: PathBuf,
}

impl Handover {
    /// Opens an address that contains a secret. Returns `None` if there is no browser.
    pub(crate) fn open(address: &str) -> Option<Self> {
        if !has_display() {
            return None;
        }
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
        let folders = runtime.filter(|path| path.is_absolute()).into_iter();
        let handover = folders
            .chain([std::env::temp_dir()])
            .find_map(|folder| Self::write(&folder, address))?;
        open::that_detached(handover.file()).is_ok().then_some(handover)
    }

    /// Writes the file into a new folder with an unguessable name. An existing folder is never used.
    fn write(folder: &Path, address: &str) -> Option<Self> {
        let name: String = random::<16>().ok()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let folder = folder.join(format!("muster-{name}"));
        DirBuilder::new().mode(0o700).create(&folder).ok()?;
        let handover = Self { folder };
        let page = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\"><title>Muster</title>\
             <meta http-equiv=\"refresh\" content=\"0; url={address}\"><a href=\"{address}\">Continue to Muster</a>\n"
        );
        let file =
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(handover.file());
        file.ok()?.write_all(page.as_bytes()).ok()?;
        Some(handover)
    }

    fn file(&self) -> PathBuf {
        self.folder.join("open.html")
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.file());
        let _ = std::fs::remove_dir(&self.folder);
    }
}

/// Returns whether this session can show a browser. A session over SSH to a server cannot, whatever is installed there.
/// The Windows Subsystem for Linux uses the browser of Windows.
fn has_display() -> bool {
    let names = ["DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"];
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || names.iter().any(|name| is_set(name))
}
