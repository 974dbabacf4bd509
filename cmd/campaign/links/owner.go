package links

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"strings"
)

// ownerTries is how often the tables are read: each read is made of several, and what moves
// in between may be missed.
const ownerTries = 10

// Owner tells which of some processes has the socket that dialled from an address of the
// loopback interface, 0 if none has. It asks the kernel's table of connections for the
// socket's inode, and then each process's descriptors for that.
func Owner(remote net.Addr, pids []int) int {
	a, ok := remote.(*net.TCPAddr)
	for n := 0; ok && n < ownerTries; n++ {
		table, err := os.ReadFile("/proc/net/tcp")
		if err != nil {
			return 0
		}
		inode := inodeOf(string(table), a)
		if inode == "" {
			continue
		}
		for _, pid := range pids {
			if holds(pid, "socket:["+inode+"]") {
				return pid
			}
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

// inodeOf finds the inode of the socket that is bound to an address in the text of
// /proc/net/tcp: each line has a number, the local and the remote address, and the inode as
// its tenth field. Addresses are the four bytes as the machine's word, in hexadecimal.
func inodeOf(table string, a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return ""
	}
	var word [4]byte
	binary.BigEndian.PutUint32(word[:], binary.NativeEndian.Uint32(ip))
	local := fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(word[:])), a.Port)
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) >= 10 && f[1] == local && f[9] != "0" {
			return f[9]
		}
	}
	return ""
}
