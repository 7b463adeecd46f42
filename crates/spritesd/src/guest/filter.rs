//! A system call filter for guests, as the bytes `bwrap --seccomp` takes. Pure.
//!
//! It forbids what the sandbox itself does not. Making btrfs subvolumes, which an ordinary user may do: their contents
//! would not count against the Sprite's limit. Sockets of other kinds than local, internet and netlink: no packet
//! filter sees those (a machine's own hypervisor, for one, is reached by `AF_VSOCK`). System calls of another architecture are refused, as they
//! would bypass that.

/// One instruction of classic BPF: code, jump if true, jump if false, operand.
type Instruction = (u16, u8, u8, u32);

/// Load a word of the `seccomp_data`: number at 0, architecture at 4, low words of the first and second argument at 16 and 24.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
/// Returns an errno in the low bits.
const ERRNO: u32 = 0x0005_0000;
const EPERM: u32 = 1;
const ENOSYS: u32 = 38;
const EAFNOSUPPORT: u32 = 97;

/// `AF_UNIX`, `AF_INET`, `AF_INET6`, `AF_NETLINK` (which tells of interfaces and changes nothing without power).
const FAMILIES: [u32; 4] = [1, 2, 10, 16];
/// Of the part that looks at them: one load, two instructions a family, one refusal.
const FAMILIES_LENGTH: u8 = 10;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: (u32, u32, u32) = (0xc000_003e, 16, 41);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: (u32, u32, u32) = (0xc000_00b7, 29, 198);
/// System calls of the x32 variant have this bit set.
const X32: u32 = 0x4000_0000;

/// `BTRFS_IOC_SNAP_CREATE`, `_SUBVOL_CREATE`, `_SNAP_CREATE_V2`, `_SUBVOL_CREATE_V2` of linux/btrfs.h.
const SUBVOLUMES: [u32; 4] = [0x5000_9401, 0x5000_940e, 0x5000_9417, 0x5000_9418];

/// The filter's bytes.
pub(super) fn program() -> Vec<u8> {
    let (architecture, ioctl, socket) = ARCHITECTURE;
    let mut program: Vec<Instruction> = vec![
        (LOAD, 0, 0, 4),
        (JUMP_IF_EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, ERRNO | ENOSYS),
        (LOAD, 0, 0, 0),
        (JUMP_IF_AT_LEAST, 0, 1, X32),
        (RETURN, 0, 0, ERRNO | ENOSYS),
        (JUMP_IF_EQUAL, 0, FAMILIES_LENGTH, socket),
        (LOAD, 0, 0, 16),
    ];
    for family in FAMILIES {
        program.extend([(JUMP_IF_EQUAL, 0, 1, family), (RETURN, 0, 0, ALLOW)]);
    }
    program.extend([
        (RETURN, 0, 0, ERRNO | EAFNOSUPPORT),
        (JUMP_IF_EQUAL, 1, 0, ioctl),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, 24),
    ]);
    for request in SUBVOLUMES {
        program.extend([(JUMP_IF_EQUAL, 0, 1, request), (RETURN, 0, 0, ERRNO | EPERM)]);
    }
    program.push((RETURN, 0, 0, ALLOW));
    program
        .into_iter()
        .flat_map(|(code, yes, no, operand)| {
            let [c0, c1] = code.to_ne_bytes();
            let [o0, o1, o2, o3] = operand.to_ne_bytes();
            [c0, c1, yes, no, o0, o1, o2, o3]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jump_over_the_families_is_as_long_as_they_are() {
        assert_eq!(usize::from(FAMILIES_LENGTH), 1 + 2 * FAMILIES.len() + 1);
        assert_eq!(program().len() % 8, 0);
    }
}
