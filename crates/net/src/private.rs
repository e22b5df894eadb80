//! Files that only their owner may read, whatever the mask of the process says, and that are what
//! they seem: not a link to another one, and nothing that a write could wait for.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;

/// What the owner may do.
const MODE: u32 = 0o600;
/// What others may not do with a file that was there before. Its group may: an operator may have
/// made it so, for whoever collects logs.
const OTHERS: u32 = 0o007;

/// Opens a file to append to, or makes it. The line is a warning, about a file that others could
/// read.
///
/// # Errors
/// Those of the system, and when the path is a link, a device, a pipe or anything else but a file,
/// or the file is another account's and everybody may read or write it. Nothing waits.
pub fn open_log(path: &Path) -> io::Result<(File, Option<String>)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.append(true).mode(MODE).custom_flags(flags);
    let made = options.clone().create_new(true).open(path);
    match made {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(MODE))?;
            return Ok((file, None));
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    // What is no file is named by what it is, not by how opening it fails.
    regular(&fs::symlink_metadata(path)?)?;
    let file = options.open(path)?;
    let found = file.metadata()?;
    regular(&found)?;
    let warning = narrowed(&file, &found, path)?;
    Ok((file, warning))
}

/// Reads a file that a setting names. Links are followed.
///
/// # Errors
/// Those of the system, and when the path is a device, a pipe or anything else but a file. Nothing
/// waits.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    regular(&found)?;
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or_default());
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// As [`read`], of a text in UTF-8.
///
/// # Errors
/// Besides, when it is none.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error()))
}

fn regular(found: &fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => {
            let what = if found.is_symlink() { "a symbolic link" } else { "not a regular file" };
            Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}")))
        }
    }
}

/// Takes from others what they may do with a file; a line about it.
fn narrowed(file: &File, found: &fs::Metadata, path: &Path) -> io::Result<Option<String>> {
    let mode = found.mode() & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(None);
    }
    let narrow = mode & !OTHERS;
    if let Err(error) = file.set_permissions(Permissions::from_mode(narrow)) {
        let reason = format!(
            "everybody may use it (mode {mode:04o}), and that can't be changed: {error}; its \
             owner is account {}",
            found.uid()
        );
        return Err(io::Error::new(error.kind(), reason));
    }
    let path = path.display();
    Ok(Some(format!(
        "{path} could be used by everybody (mode {mode:04o}): it has {narrow:04o} now"
    )))
}

/// Takes from everybody but the owner what they may do with a file; a line about it when there was
/// something to take. A file that is not there has nothing.
///
/// # Errors
/// Those of the system.
pub fn make_private(path: &Path) -> io::Result<Option<String>> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let mode = found.mode() & 0o7777;
    if !found.is_file() || mode & 0o077 == 0 {
        return Ok(None);
    }
    fs::set_permissions(path, Permissions::from_mode(MODE))?;
    let path = path.display();
    Ok(Some(format!("{path} could be used by others (mode {mode:04o}): it has {MODE:04o} now")))
}

/// Makes a file with this content; there must be none of its name.
///
/// # Errors
/// Those of the system.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Writes a file as a whole or not at all: what was there under its name, be it a link, is
/// replaced.
///
/// # Errors
/// Those of the system, also for the file beside it, `.new`, which becomes it.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = OsString::from(path);
    name.push(".new");
    let new = PathBuf::from(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    create(&new, bytes)?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("trunkline-private-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            drop(fs::remove_dir_all(&path));
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn file(&self, name: &str, mode: u32) -> PathBuf {
            let path = self.0.join(name);
            fs::write(&path, "before\n").expect("a file");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").mode() & 0o7777
    }

    fn refused(path: &Path) -> String {
        open_log(path).expect_err("refused").to_string()
    }

    #[test]
    fn what_a_setting_names_is_read_if_it_is_a_file() {
        let folder = Folder::new("read");
        let file = folder.0.join("secret");
        fs::write(&file, "word").expect("written");
        assert_eq!(read_text(&file).expect("a file"), "word");
        let link = folder.0.join("link");
        symlink(&file, &link).expect("a link");
        assert_eq!(read_text(&link).expect("a file"), "word");
        let pipe = folder.0.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        let refused = read(&pipe).expect_err("nobody writes to it");
        assert_eq!(refused.to_string(), "it is not a regular file");
        fs::write(&file, [0xFF]).expect("written");
        assert_eq!(read_text(&file).expect_err("no text").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_log_is_a_file_and_nothing_else() {
        let folder = Folder::new("log");
        let link = folder.0.join("link");
        symlink(folder.file("other", 0o600), &link).expect("a link");
        assert_eq!(refused(&link), "it is a symbolic link");
        let nowhere = folder.0.join("nowhere");
        symlink("/no/such/file", &nowhere).expect("a link");
        assert_eq!(refused(&nowhere), "it is a symbolic link");
        let pipe = folder.0.join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a pipe");
        assert_eq!(refused(&pipe), "it is not a regular file");
        assert_eq!(refused(Path::new("/dev/full")), "it is not a regular file");
        assert_eq!(refused(&folder.0), "it is not a regular file");
        assert_eq!(fs::read_to_string(folder.0.join("other")).expect("a file"), "before\n");
    }

    #[test]
    fn what_is_made_is_its_owners_and_what_was_there_is_no_longer_everybodys() {
        let folder = Folder::new("modes");
        let path = folder.0.join("new.log");
        assert_eq!(open_log(&path).expect("made").1, None);
        assert_eq!(mode(&path), 0o600);
        let (mut file, warning) = open_log(&folder.file("wide", 0o646)).expect("opened");
        file.write_all(b"after\n").expect("written");
        let warning = warning.expect("a warning");
        assert!(warning.ends_with("(mode 0646): it has 0640 now"), "{warning}");
        let wide = folder.0.join("wide");
        assert_eq!(mode(&wide), 0o640);
        assert_eq!(fs::read_to_string(&wide).expect("a file"), "before\nafter\n");
        assert_eq!(open_log(&wide).expect("again").1, None, "the group may");
        let line = make_private(&wide).expect("narrowed").expect("a line");
        assert!(line.ends_with("(mode 0640): it has 0600 now"), "{line}");
        assert_eq!(make_private(&wide).expect("again"), None);
        assert_eq!(make_private(&folder.0.join("none")).expect("nothing"), None);
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_never_through_a_link() {
        let folder = Folder::new("replace");
        let (kept, link) = (folder.file("kept", 0o644), folder.0.join("state"));
        symlink(&kept, &link).expect("a link");
        symlink(&kept, folder.0.join("state.new")).expect("a link");
        replace(&link, b"state").expect("replaced");
        assert_eq!(fs::read_to_string(&link).expect("a file"), "state");
        assert!(fs::symlink_metadata(&link).expect("there").is_file());
        assert_eq!(mode(&link), 0o600);
        assert_eq!(fs::read_to_string(&kept).expect("a file"), "before\n");
        assert!(create(&link, b"x").is_err(), "there is one");
    }
}
