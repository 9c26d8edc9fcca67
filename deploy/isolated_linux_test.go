package deploy

import (
	"os"
	"syscall"
)

// isolated returns the attributes of a process in another root, as a user without rights.
func isolated(root string) *syscall.SysProcAttr {
	const nobody = 65532
	attributes := &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if os.Getuid() != 0 { // the user of a namespace may change the root
		attributes.Cloneflags = syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: os.Getgid(), Size: 1}}
	}
	return attributes
}
