package tcp_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	stdnet "net"
	"testing"
	"time"

	"seedlog/clock"
	"seedlog/clock/live"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/disk/osfs"
	"seedlog/net"
	"seedlog/net/nettest"
	"seedlog/net/tcp"
)

func world(t *testing.T, n *tcp.Network) *nettest.World {
	rt := live.New(live.Options{})
	return &nettest.World{
		Run:    func(fn func(t *task.T)) { live.Main(rt, fn) },
		Server: n, Client: n, Addr: "127.0.0.1:0",
		Disk: osfs.New(osfs.Options{}), Dir: t.TempDir(),
		Window: 24 << 20,
	}
}

func TestConformance(t *testing.T) {
	nettest.Run(t, func(t *testing.T) *nettest.World { return world(t, tcp.New(tcp.Config{})) })
}

func TestConformanceTLS(t *testing.T) {
	cfg := selfSigned(t)
	nettest.Run(t, func(t *testing.T) *nettest.World { return world(t, tcp.New(cfg)) })
}

func selfSigned(t *testing.T) tcp.Config {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []stdnet.IP{stdnet.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return tcp.Config{
		ServerTLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		ClientTLS: &tls.Config{RootCAs: roots},
	}
}

// fetch writes header and range once and reads both on the other side, n times.
func fetch(t *testing.T, n *tcp.Network, times int, wrap func(disk.File) disk.File) (allocs float64) {
	w := world(t, n)
	const size = 100_000
	w.Run(func(tk *task.T) {
		f, err := w.Disk.Open(tk, w.Dir+"/f", disk.CreateNew)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close(tk)
		if _, err := f.WriteAt(tk, make([]byte, size), 0); err != nil {
			t.Error(err)
			return
		}
		if wrap != nil {
			f = wrap(f)
		}
		ln, err := n.Listen(tk, "127.0.0.1:0")
		if err != nil {
			t.Error(err)
			return
		}
		defer ln.Close()
		var server net.Conn
		accepted := tk.Group().Sub("accept")
		accepted.Go("accept", func(tk *task.T) { server, _ = ln.Accept(tk) })
		client, err := n.Dial(tk, ln.Addr(), clock.Never)
		accepted.Wait(tk)
		if err != nil || server == nil {
			t.Error("no connection", err)
			return
		}
		defer client.Close()
		defer server.Close()

		// The writer is another task, so that TLS can shake hands and windows may fill.
		ranges := make([]*disk.Range, times+2)
		for i := range ranges {
			ranges[i] = f.Range(0, size)
		}
		writer := tk.Group().Sub("writer")
		writer.Go("writer", func(tk *task.T) {
			until := tk.Now().Add(time.Minute)
			parts := make([]net.Part, 2)
			head := []byte("header")
			for _, r := range ranges {
				parts[0], parts[1] = net.Part{Bytes: head}, net.Part{File: r}
				if err := server.Write(tk, parts, until); err != nil {
					t.Error(err)
					return
				}
			}
		})
		buf := make([]byte, 64<<10)
		until := tk.Now().Add(time.Minute)
		read := func() {
			for left := 6 + size; left > 0; {
				m, err := client.Read(tk, buf[:min(left, len(buf))], until)
				if err != nil {
					t.Error(err)
					return
				}
				left -= m
			}
		}
		read() // the first one warms up
		allocs = testing.AllocsPerRun(times, read)
		writer.Wait(tk)
	})
	return allocs
}

func TestPlaintextFetchLeavesBySendfileWithoutAllocation(t *testing.T) {
	n := tcp.New(tcp.Config{})
	const times = 200
	allocs := fetch(t, n, times, nil)
	if want := int64((times + 2) * 100_000); n.Counters().SendfileBytes.Load() != want {
		t.Errorf("%d bytes by sendfile, want %d", n.Counters().SendfileBytes.Load(), want)
	}
	if c := n.Counters().CopiedBytes.Load(); c != 0 {
		t.Errorf("%d bytes were copied", c)
	}
	if b, want := n.Counters().WriteBytes.Load(), int64((times+2)*6); b != want {
		t.Errorf("%d header bytes, want %d", b, want)
	}
	if allocs > 0 {
		t.Errorf("%v allocations per write and read", allocs)
	}
}

func TestTLSFetchIsCopied(t *testing.T) {
	n := tcp.New(selfSigned(t))
	const times = 20
	fetch(t, n, times, nil)
	if want := int64((times + 2) * 100_000); n.Counters().CopiedBytes.Load() != want {
		t.Errorf("%d bytes copied, want %d", n.Counters().CopiedBytes.Load(), want)
	}
	if c := n.Counters().SendfileCalls.Load(); c != 0 {
		t.Errorf("%d sendfile calls on TLS", c)
	}
}

// noDescriptor is a file that cannot be sent from.
type noDescriptor struct {
	disk.File
	pins disk.Pins
}

func (f *noDescriptor) Range(off, n int64) *disk.Range { return f.pins.New(f, off, n) }

func (f *noDescriptor) ReadPinned(t *task.T, p []byte, off int64) (int, error) {
	return f.ReadAt(t, p, off)
}

func TestFileWithoutDescriptorIsCopied(t *testing.T) {
	n := tcp.New(tcp.Config{})
	const times = 20
	fetch(t, n, times, func(f disk.File) disk.File { return &noDescriptor{File: f} })
	if want := int64((times + 2) * 100_000); n.Counters().CopiedBytes.Load() != want {
		t.Errorf("%d bytes copied, want %d", n.Counters().CopiedBytes.Load(), want)
	}
	if c := n.Counters().SendfileCalls.Load(); c != 0 {
		t.Errorf("%d sendfile calls", c)
	}
}
