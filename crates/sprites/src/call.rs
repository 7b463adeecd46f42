//! The kinds of calls: their names in metrics and spans, what they may be repeated for, and who goes first. Pure.

/// Who goes first when the account is busy or limited; a later one in this list before an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Looking after what is not in use: listing for orphans.
    Sweep,
    /// Looking whether all is as it should be.
    Verify,
    /// Probing a Sprite from inside.
    Probe,
    /// Starting commands, files, services.
    Exec,
    /// Setting rules and proving that they hold.
    Lockdown,
    /// Destroying a Sprite.
    Delete,
    /// Ending commands.
    Kill,
}

impl Priority {
    /// Every priority, the lowest first.
    pub const ALL: [Self; 7] =
        [Self::Sweep, Self::Verify, Self::Probe, Self::Exec, Self::Lockdown, Self::Delete, Self::Kill];

    /// A short fixed word for a metrics label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Verify => "verify",
            Self::Probe => "probe",
            Self::Exec => "exec",
            Self::Lockdown => "lockdown",
            Self::Delete => "delete",
            Self::Kill => "kill",
        }
    }
}

/// What is asked of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallKind {
    Create,
    Get,
    List,
    Update,
    Delete,
    Restart,
    PolicyGet,
    PolicySet,
    ExecStart,
    ExecAttach,
    ExecList,
    Kill,
    FileRead,
    FileWrite,
    FileList,
    FileDelete,
    ServiceList,
    ServiceDelete,
    CheckpointList,
    CheckpointCreate,
    CheckpointRestore,
}

impl CallKind {
    /// Every kind.
    pub(super) const ALL: [Self; 21] = [
        Self::Create,
        Self::Get,
        Self::List,
        Self::Update,
        Self::Delete,
        Self::Restart,
        Self::PolicyGet,
        Self::PolicySet,
        Self::ExecStart,
        Self::ExecAttach,
        Self::ExecList,
        Self::Kill,
        Self::FileRead,
        Self::FileWrite,
        Self::FileList,
        Self::FileDelete,
        Self::ServiceList,
        Self::ServiceDelete,
        Self::CheckpointList,
        Self::CheckpointCreate,
        Self::CheckpointRestore,
    ];

    /// A short fixed word for a metrics label and a span.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::List => "list",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Restart => "restart",
            Self::PolicyGet => "policy_get",
            Self::PolicySet => "policy_set",
            Self::ExecStart => "exec_start",
            Self::ExecAttach => "exec_attach",
            Self::ExecList => "exec_list",
            Self::Kill => "kill",
            Self::FileRead => "file_read",
            Self::FileWrite => "file_write",
            Self::FileList => "file_list",
            Self::FileDelete => "file_delete",
            Self::ServiceList => "service_list",
            Self::ServiceDelete => "service_delete",
            Self::CheckpointList => "checkpoint_list",
            Self::CheckpointCreate => "checkpoint_create",
            Self::CheckpointRestore => "checkpoint_restore",
        }
    }

    /// Whether doing it twice is the same as once, whatever happened in between: it changes nothing.
    pub(super) const fn only_reads(self) -> bool {
        match self {
            Self::Get
            | Self::List
            | Self::PolicyGet
            | Self::ExecAttach
            | Self::ExecList
            | Self::FileRead
            | Self::FileList
            | Self::ServiceList
            | Self::CheckpointList => true,
            Self::Create
            | Self::Update
            | Self::Delete
            | Self::Restart
            | Self::PolicySet
            | Self::ExecStart
            | Self::Kill
            | Self::FileWrite
            | Self::FileDelete
            | Self::ServiceDelete
            | Self::CheckpointCreate
            | Self::CheckpointRestore => false,
        }
    }

    /// Whether the service itself answers, and not the machine that is asked for.
    pub(super) const fn is_of_the_account(self) -> bool {
        matches!(self, Self::Create | Self::Get | Self::List | Self::Update | Self::Delete)
    }

    /// Its priority when the caller names none.
    pub(super) const fn priority(self) -> Priority {
        match self {
            Self::Kill | Self::Restart => Priority::Kill,
            Self::Delete => Priority::Delete,
            Self::Update | Self::PolicySet | Self::ServiceDelete => Priority::Lockdown,
            Self::Create
            | Self::ExecStart
            | Self::ExecAttach
            | Self::ExecList
            | Self::FileRead
            | Self::FileWrite
            | Self::FileList
            | Self::FileDelete
            | Self::CheckpointCreate
            | Self::CheckpointRestore => Priority::Exec,
            Self::Get | Self::PolicyGet | Self::ServiceList | Self::CheckpointList => Priority::Verify,
            Self::List => Priority::Sweep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_goes_before_delete_before_lockdown_before_exec_before_probe_before_verify_before_sweep() {
        let mut sorted = Priority::ALL;
        sorted.sort();
        assert_eq!(sorted, Priority::ALL);
        let words: Vec<_> = Priority::ALL.iter().rev().map(|priority| priority.as_str()).collect();
        assert_eq!(words, ["kill", "delete", "lockdown", "exec", "probe", "verify", "sweep"]);
    }
}
