//go:build linux

package osfs

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// posixLockAndReport takes a POSIX record lock (F_SETLK), which is what a JVM takes.
func posixLockAndReport(path string) {
	fd, err := unix.Open(path, unix.O_RDWR, 0)
	if err == nil {
		whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
		err = unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &whole)
	}
	switch err {
	case nil:
		fmt.Println("granted")
	case unix.EAGAIN, unix.EACCES:
		fmt.Println("refused")
	default:
		fmt.Println("failed:", err)
	}
}

func lockInChild(t *testing.T, path string) string {
	cmd := exec.Command(os.Args[0], "-test.run=^TestLockOfAnotherProcess$", "-test.v")
	cmd.Env = append(os.Environ(), "OSFS_TEST_LOCK="+path)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("child: %v: %s", err, out)
	}
	return string(out)
}
