# Shows host directories in another place with the superuser's files as the guest's: idmap.pl UNSHARE USER (FROM TO)...
# UNSHARE is the number of that system call here. The three others have one number everywhere; neither libc's mount(8)
# of many systems nor the crates that we use know them.
use strict;
use warnings;

my ($unshare, $user, @pairs) = @ARGV;
my ($AT_FDCWD, $AT_EMPTY_PATH, $CLONE_NEWUSER) = (-100, 0x1000, 0x10000000);
my ($OPEN_TREE_CLONE, $OPEN_TREE_CLOEXEC, $MOVE_MOUNT_F_EMPTY_PATH, $MOUNT_ATTR_IDMAP) = (1, 02000000, 4, 0x100000);
my ($open_tree, $move_mount, $mount_setattr, $empty) = (428, 429, 442, '');

# A user namespace is made by entering it; a child does, and ends with us.
pipe(my $told, my $tell) and pipe(my $wait, my $end) or die "pipe: $!\n";
my $child = fork // die "fork: $!\n";
if (!$child) {
    close $end;
    syscall($unshare + 0, $CLONE_NEWUSER) == 0 or exit 1;
    syswrite $tell, 'x';
    sysread $wait, my $byte, 1;
    exit 0;
}
close $tell;
sysread($told, my $byte, 1) or die "no user namespace\n";
for my $map ('uid_map', 'gid_map') {
    open my $file, '>', "/proc/$child/$map" or die "$map: $!\n";
    syswrite $file, "0 $user 1\n" or die "$map: $!\n";
    close $file;
}
open my $namespace, '<', "/proc/$child/ns/user" or die "user namespace: $!\n";
my $attributes = pack 'Q4', $MOUNT_ATTR_IDMAP, 0, 0, fileno $namespace;
while (my ($from, $to) = splice @pairs, 0, 2) {
    my $tree = syscall($open_tree, $AT_FDCWD, $from, $OPEN_TREE_CLONE | $OPEN_TREE_CLOEXEC);
    die "$from cannot be cloned: $!\n" if $tree < 0;
    syscall($mount_setattr, $tree, $empty, $AT_EMPTY_PATH, $attributes, length $attributes) == 0
        or die "$from cannot have another owner: $!\n";
    syscall($move_mount, $tree, $empty, $AT_FDCWD, $to, $MOVE_MOUNT_F_EMPTY_PATH) == 0 or die "$to: $!\n";
}
