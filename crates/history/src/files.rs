//! Files of frames: some for each resolution, the oldest of which leave when there is no room.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    ops::ControlFlow,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{
    Frame,
    codec::{self, Seen, Written},
};

/// What each file begins with.
const MAGIC: &[u8; 8] = b"TRKHIST1";
/// Files that a resolution's share is cut into.
const FILES: u64 = 16;
/// Files of a resolution, however short they are: each start begins new ones.
const FILES_MAX: usize = 256;

/// For how long the frames of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// Ten seconds.
    TenSeconds,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

impl Resolution {
    /// Every resolution, the finest first.
    pub const ALL: [Self; 4] = [Self::TenSeconds, Self::Minute, Self::Hour, Self::Day];

    /// How long a frame is.
    pub fn seconds(self) -> u64 {
        match self {
            Self::TenSeconds => 10,
            Self::Minute => 60,
            Self::Hour => 3_600,
            Self::Day => 86_400,
        }
    }

    /// What the names of its files begin with.
    fn name(self) -> &'static str {
        match self {
            Self::TenSeconds => "10s",
            Self::Minute => "1m",
            Self::Hour => "1h",
            Self::Day => "1d",
        }
    }

    /// Its part of the bytes, in hundredths. A thousand busy digests fill 10 s for hours, 1 min for
    /// days, 1 h for months.
    fn share(self) -> u64 {
        match self {
            Self::TenSeconds => 25,
            Self::Minute => 30,
            Self::Hour => 38,
            Self::Day => 7,
        }
    }
}

/// One file.
#[derive(Debug, Clone)]
struct Segment {
    path: PathBuf,
    /// When its first frame begins.
    begin: u64,
    len: u64,
}

/// The files of one resolution.
#[derive(Debug)]
struct Files {
    resolution: Resolution,
    bytes_max: u64,
    /// The oldest first; the last one may be written to.
    segments: Vec<Segment>,
    open: Option<(File, Written)>,
    /// What is not written yet, as its time is not over.
    pending: Frame,
}

/// Keeps frames in a folder.
#[derive(Debug)]
pub struct History {
    folder: PathBuf,
    files: Vec<Files>,
}

impl History {
    /// Opens a folder, or makes it. What was kept there stays, as far as there is room.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut files: Vec<Files> = Vec::new();
        for resolution in Resolution::ALL {
            let mut opened = Files {
                resolution,
                bytes_max: bytes_max / 100 * resolution.share(),
                segments: segments(folder, resolution)?,
                open: None,
                pending: Frame::default(),
            };
            opened.make_room(0)?;
            if let Some(finer) = files.last() {
                opened.recover(folder, finer)?;
            }
            files.push(opened);
        }
        Ok(Self { folder: folder.to_owned(), files })
    }

    /// Keeps a frame of ten seconds, and those of longer times that are over with it.
    ///
    /// # Errors
    /// Those of the system. What could not be written is lost; the next frame begins a new file.
    pub fn add(&mut self, frame: &Frame) -> io::Result<()> {
        let mut result = Ok(());
        for files in &mut self.files {
            let added = files.add(&self.folder, frame);
            result = result.and(added);
        }
        result
    }

    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        let segments = self.files.iter().flat_map(|files| &files.segments);
        segments.map(|segment| segment.len).sum()
    }
}

impl Files {
    fn add(&mut self, folder: &Path, frame: &Frame) -> io::Result<()> {
        if self.resolution == Resolution::TenSeconds {
            return self.write(folder, frame);
        }
        let written = match self.is_over(frame.begin) {
            true => {
                let over = std::mem::take(&mut self.pending);
                self.write(folder, &over)
            }
            false => Ok(()),
        };
        self.pending.merge(frame);
        written
    }

    /// Whether what is pending belongs to another time than what begins then.
    fn is_over(&self, begin: u64) -> bool {
        let period = |at: u64| at / self.resolution.seconds();
        self.pending.seconds > 0 && period(self.pending.begin) != period(begin)
    }

    /// Takes up what was not written when the process ended, from the files of the finer one.
    fn recover(&mut self, folder: &Path, finer: &Files) -> io::Result<()> {
        let last = self.segments.last().cloned();
        let mut end = 0;
        if let Some(segment) = last {
            let shown = visit_segment(&segment.path, &mut |frame| {
                end = frame.end();
                ControlFlow::Continue(())
            })?;
            debug_assert!(shown.is_continue(), "nothing has stopped it");
        }
        let mut frames = Vec::new();
        visit(folder, finer.resolution, end, u64::MAX, |frame| {
            if frame.begin >= end {
                frames.push(frame);
            }
        })?;
        if finer.pending.seconds > 0 {
            frames.push(finer.pending.clone());
        }
        frames.iter().try_for_each(|frame| self.add(folder, frame))
    }

    fn write(&mut self, folder: &Path, frame: &Frame) -> io::Result<()> {
        let written = self.try_write(folder, frame);
        if written.is_err() {
            // What is half written ends its file.
            self.open = None;
        }
        written
    }

    fn try_write(&mut self, folder: &Path, frame: &Frame) -> io::Result<()> {
        let is_full = self.segments.last().is_none_or(|it| it.len >= self.bytes_max / FILES);
        if is_full {
            self.open = None;
        }
        let (mut file, mut written) = match self.open.take() {
            Some(open) => open,
            None => (self.begin(folder, frame.begin)?, Written::default()),
        };
        let Some(record) = codec::record(frame, &mut written) else { return Ok(()) };
        self.make_room(u64::try_from(record.len()).unwrap_or(u64::MAX))?;
        file.write_all(&record)?;
        if let Some(segment) = self.segments.last_mut() {
            segment.len = segment.len.saturating_add(record.len() as u64);
        }
        self.open = Some((file, written));
        Ok(())
    }

    /// A new file.
    fn begin(&mut self, folder: &Path, begin: u64) -> io::Result<File> {
        for number in 0..1_000 {
            let name = format!("{}-{begin:012}-{number:03}", self.resolution.name());
            let path = folder.join(name);
            let made = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path);
            match made {
                Ok(mut file) => {
                    self.segments.push(Segment { path, begin, len: 0 });
                    file.write_all(MAGIC)?;
                    if let Some(segment) = self.segments.last_mut() {
                        segment.len = MAGIC.len() as u64;
                    }
                    return Ok(file);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("there are too many files of one second"))
    }

    /// Removes the oldest files until there is room for so many bytes more. The one that is written
    /// to stays.
    fn make_room(&mut self, more: u64) -> io::Result<()> {
        loop {
            let len: u64 = self.segments.iter().map(|segment| segment.len).sum();
            let is_over = len.saturating_add(more) > self.bytes_max;
            let is_many = self.segments.len() > FILES_MAX;
            if !(is_over || is_many) || self.segments.len() <= 1 {
                return Ok(());
            }
            let oldest = self.segments.remove(0);
            match fs::remove_file(&oldest.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// The files of a resolution, the oldest first.
fn segments(folder: &Path, resolution: Resolution) -> io::Result<Vec<Segment>> {
    let prefix = format!("{}-", resolution.name());
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let begin = name.to_str().and_then(|name| {
            let (begin, _) = name.strip_prefix(&prefix)?.split_once('-')?;
            begin.parse().ok()
        });
        if let Some(begin) = begin {
            let len = entry.metadata()?.len();
            found.push(Segment { path: entry.path(), begin, len });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Shows each frame of a resolution that has a part between two times (Unix seconds), the oldest
/// first. What is damaged ends its file, and the next one is read.
///
/// # Errors
/// Those of the system.
pub fn visit(
    folder: &Path,
    resolution: Resolution,
    from: u64,
    to: u64,
    mut show: impl FnMut(Frame),
) -> io::Result<()> {
    visit_while(folder, resolution, from, to, |frame| {
        show(frame);
        ControlFlow::Continue(())
    })
}

/// Shows frames as [`visit`] does, until it is told to stop.
///
/// # Errors
/// Those of the system.
pub fn visit_while(
    folder: &Path,
    resolution: Resolution,
    from: u64,
    to: u64,
    mut show: impl FnMut(Frame) -> ControlFlow<()>,
) -> io::Result<()> {
    let segments = segments(folder, resolution)?;
    let ends = segments.iter().skip(1).map(|next| next.begin).chain([u64::MAX]);
    for (segment, next) in segments.iter().zip(ends) {
        // A frame that has begun before the next file may go on within it.
        let end = next.saturating_add(resolution.seconds());
        if segment.begin >= to || end <= from {
            continue;
        }
        let shown = visit_segment(&segment.path, &mut |frame| match frame.begin < to
            && frame.end() > from
        {
            true => show(frame),
            false => ControlFlow::Continue(()),
        })?;
        if shown.is_break() {
            break;
        }
    }
    Ok(())
}

fn visit_segment(
    path: &Path,
    show: &mut dyn FnMut(Frame) -> ControlFlow<()>,
) -> io::Result<ControlFlow<()>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        // It has left meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(ControlFlow::Continue(()));
        }
        Err(error) => return Err(error),
    };
    let Some(mut rest) = bytes.strip_prefix(MAGIC.as_slice()) else {
        return Ok(ControlFlow::Continue(()));
    };
    let mut seen = Seen::default();
    while let Some((frame, behind)) = codec::read(rest, &mut seen) {
        if show(frame).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        rest = behind;
    }
    Ok(ControlFlow::Continue(()))
}

/// Bytes of the files in a folder; 0 where there is none.
pub fn bytes_of(folder: &Path) -> u64 {
    let of = |resolution| segments(folder, resolution).unwrap_or_default();
    let all = Resolution::ALL.into_iter().flat_map(of);
    all.map(|segment| segment.len).sum()
}

#[cfg(test)]
mod tests;
