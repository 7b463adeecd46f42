//! A file operation: its path inside the workspace, its sizes, its mode.

use std::borrow::Cow;

use super::{Complaints, decoded};
use crate::controllers::run::plan::Tool;
use api::{
    reasons::RunReason,
    run::{EditFile, ReadFile, WriteFile},
};
use redact::LOOKAHEAD;
use rules::{limits::Limits, output::FILE_BEFORE, path};
use runner_protocol::FileOperation;

/// A file operation that holds.
pub enum CheckedFile<'a> {
    Write { path: String, mode: Option<u32>, content: Cow<'a, [u8]> },
    Read { path: String, offset: u64, length: u64 },
    Edit { path: String, edit: &'a EditFile },
}

impl CheckedFile<'_> {
    /// As it is executed.
    pub fn tool(self) -> Tool {
        Tool::File(match self {
            Self::Write { path, mode, content } => FileOperation::Write { path, mode, content: content.into_owned() },
            Self::Read { path, offset, length } => {
                FileOperation::Read { path, offset, length, before: FILE_BEFORE, ahead: LOOKAHEAD as u64 }
            }
            Self::Edit { path, edit: EditFile { old_text, new_text, replace_all, .. } } => {
                let bytes = |text: &String| text.clone().into_bytes();
                FileOperation::Edit { path, old: bytes(old_text), new: bytes(new_text), all: *replace_all }
            }
        })
    }
}

fn place(field: &str, text: &str, complaints: &mut Complaints) -> Option<String> {
    match path::file(text) {
        Ok(path) => Some(path),
        Err(error) => {
            complaints.add(error.reason(), &format!("{field}: {error}"));
            None
        }
    }
}

/// Checks a write.
pub fn write<'a>(write: &'a WriteFile, limits: &Limits, complaints: &mut Complaints) -> Option<CheckedFile<'a>> {
    let path = place("writeFile.path", &write.path, complaints);
    let content = match (&write.content, &write.content_base64) {
        (Some(text), None) => Some(Cow::Borrowed(text.as_bytes())),
        (None, Some(base64)) => decoded("writeFile.contentBase64", base64, complaints).map(Cow::Owned),
        (Some(_), Some(_)) | (None, None) => {
            complaints.add(RunReason::InvalidSpec, "writeFile: write exactly one of content, contentBase64");
            None
        }
    };
    complaints.size("writeFile.content", content.as_deref().map_or(0, <[u8]>::len), limits.write);
    let mode = write.mode.as_deref().map(|mode| u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o777));
    if mode == Some(None) {
        complaints
            .add(RunReason::InvalidSpec, "writeFile.mode is no octal number up to 0777: write one such as \"0644\"");
    }
    Some(CheckedFile::Write { path: path?, mode: mode.flatten(), content: content? })
}

/// Checks a read.
pub fn read(read: &ReadFile, limits: &Limits, complaints: &mut Complaints) -> Option<CheckedFile<'static>> {
    let path = place("readFile.path", &read.path, complaints);
    let natural = |field, number: i64, complaints: &mut Complaints| {
        let natural = u64::try_from(number).ok();
        if natural.is_none() {
            complaints.add(RunReason::InvalidSpec, &format!("readFile.{field} is negative: write 0 or more"));
        }
        natural
    };
    let offset = natural("offset", read.offset, complaints);
    let length = match read.length {
        Some(length) => natural("length", length, complaints),
        None => Some(limits.read),
    };
    if let Some(length) = length.filter(|length| *length > limits.read) {
        let message = format!("readFile.length is {length}, the policy allows {}: read several parts", limits.read);
        complaints.add(RunReason::LimitExceeded, &message);
    }
    Some(CheckedFile::Read { path: path?, offset: offset?, length: length? })
}

/// Checks an edit.
pub fn edit<'a>(edit: &'a EditFile, limits: &Limits, complaints: &mut Complaints) -> Option<CheckedFile<'a>> {
    let path = place("editFile.path", &edit.path, complaints);
    complaints.size("editFile.newText", edit.new_text.len(), limits.write);
    if edit.old_text.is_empty() {
        complaints.add(RunReason::InvalidSpec, "editFile.oldText is empty: write what stands in the file");
    }
    Some(CheckedFile::Edit { path: path?, edit })
}
