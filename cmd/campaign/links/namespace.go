package links

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// subnet is where all places live; node i is at .i, the clients are at .254. It is private to
// the namespaces.
const subnet = "10.213.77."

const clientsHost = 254

// Space is a network namespace with one interface, and the thread that lives in it.
type Space struct {
	// Port gives and takes the packets of the interface.
	Port io.ReadWriteCloser
	*thread
}

// NewSpace makes a namespace whose interface has an address, on a thread of its own.
func NewSpace(host byte) (*Space, error) {
	s := &Space{thread: newThread()}
	var err error
	s.Do(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("a network namespace: %w", err)
			return
		}
		s.Port, err = openInterface(host)
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// OpenClients makes the interface of this process, in the namespace it runs in.
func OpenClients() (io.ReadWriteCloser, error) { return openInterface(clientsHost) }

// openInterface brings up the loopback and a tunnel with an address in the namespace of the
// calling thread.
func openInterface(host byte) (io.ReadWriteCloser, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	if err := setUp(fd, host); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "tun"), nil
}

const tunnel = "link0"

func setUp(fd int, host byte) error {
	ifr, err := unix.NewIfreq(tunnel)
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
		return fmt.Errorf("a tunnel: %w", err)
	}
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	address := net.ParseIP(fmt.Sprintf("%s%d", subnet, host)).To4()
	return errors.Join(
		change(sock, tunnel, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(address) }),
		change(sock, tunnel, unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr([]byte{255, 255, 255, 0}) }),
		change(sock, tunnel, unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(maxPacket); return nil }),
		change(sock, tunnel, unix.SIOCSIFFLAGS, up),
		change(sock, "lo", unix.SIOCSIFFLAGS, up),
	)
}

func up(r *unix.Ifreq) error {
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return nil
}

// Loopback brings up the loopback interface of the namespace of this process.
func Loopback() error {
	sock, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(sock)
	return change(sock, "lo", unix.SIOCSIFFLAGS, up)
}

func change(sock int, name string, request uint, set func(*unix.Ifreq) error) error {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := set(ifr); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(sock, request, ifr); err != nil {
		return fmt.Errorf("%s: ioctl %#x: %w", name, request, err)
	}
	return nil
}
