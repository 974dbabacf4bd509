package links

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Owner tells which of some processes has the socket whose addresses are local and remote,
// 0 if none has. It asks the kernel for the socket's inode, and then each process's
// descriptors for that.
func Owner(local, remote net.Addr, pids []int) int {
	inode, err := inodeOf(local, remote)
	if err != nil {
		return 0
	}
	name := fmt.Sprintf("socket:[%d]", inode)
	for _, pid := range pids {
		if holds(pid, name) {
			return pid
		}
	}
	return 0
}

// holds reports whether a process has a descriptor of a name.
func holds(pid int, name string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // it ended
	}
	for _, e := range entries {
		if target, err := os.Readlink(dir + "/" + e.Name()); err == nil && target == name {
			return true
		}
	}
	return false
}

// Of sock_diag(7): a request for one socket by its addresses, and where its answer has the
// inode.
const (
	diagByFamily = 20
	requestBytes = unix.SizeofNlMsghdr + 56
	inodeAt      = unix.SizeofNlMsghdr + 68
)

// inodeOf asks the kernel for the inode of the TCP socket with these addresses.
func inodeOf(local, remote net.Addr) (uint32, error) {
	request, err := diagRequest(local, remote)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, err
	}
	if kind := binary.NativeEndian.Uint16(answer[4:]); n < inodeAt+4 || kind != diagByFamily {
		return 0, fmt.Errorf("no socket from %v to %v", local, remote)
	}
	return binary.NativeEndian.Uint32(answer[inodeAt:]), nil
}

// diagRequest is the message: a header, then family, protocol, states and the addresses,
// ports and addresses in the order of the network.
func diagRequest(local, remote net.Addr) ([]byte, error) {
	l, ok1 := local.(*net.TCPAddr)
	r, ok2 := remote.(*net.TCPAddr)
	if !ok1 || !ok2 || l.IP.To4() == nil || r.IP.To4() == nil {
		return nil, fmt.Errorf("%v and %v are not addresses of TCP over IPv4", local, remote)
	}
	b := make([]byte, requestBytes)
	binary.NativeEndian.PutUint32(b, requestBytes)
	binary.NativeEndian.PutUint16(b[4:], diagByFamily)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	body := b[unix.SizeofNlMsghdr:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	binary.NativeEndian.PutUint32(body[4:], 1<<32-1) // in any state
	binary.BigEndian.PutUint16(body[8:], uint16(l.Port))
	binary.BigEndian.PutUint16(body[10:], uint16(r.Port))
	copy(body[12:], l.IP.To4())
	copy(body[28:], r.IP.To4())
	for i := 48; i < 56; i++ {
		body[i] = 0xff // no cookie: the addresses say which
	}
	return b, nil
}
