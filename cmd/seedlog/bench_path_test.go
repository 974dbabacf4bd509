package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node"
)

// benchPath runs the raw client against a node in this process, for profiles:
//
//	go test ./cmd/seedlog -run '^$' -bench Path/produce/1048576 -cpuprofile cpu.out
func benchPath(b *testing.B, run func(b *testing.B, c *benchConn, topic string, batch []byte, records int)) {
	for _, size := range []int{1, 16 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			root := "/dev/shm"
			if _, err := os.Stat(root); err != nil {
				root = b.TempDir()
			}
			dir, err := os.MkdirTemp(root, "seedlog-bench-*")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			batch, records, err := benchBatch(size, 1024)
			if err != nil {
				b.Fatal(err)
			}
			err = nodeHere(filepath.Join(dir, "data"), func(addr string) error {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					return err
				}
				c := newBenchConn(nc.(*net.TCPConn))
				defer c.close()
				if err := c.createTopic("path", benchTopicSettings...); err != nil {
					return err
				}
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				run(b, c, "path", batch, records)
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkPath(b *testing.B) {
	b.Run("produce", func(b *testing.B) {
		benchPath(b, func(b *testing.B, c *benchConn, topic string, batch []byte, records int) {
			frame := c.produceFrame(topic, -1, batch)
			b.ResetTimer()
			if err := c.produce(topic, frame, b.N, records, inFlight); err != nil {
				b.Error(err)
			}
		})
	})
	b.Run("fetch", func(b *testing.B) {
		benchPath(b, func(b *testing.B, c *benchConn, topic string, batch []byte, records int) {
			const pieces = 100
			if err := c.produce(topic, c.produceFrame(topic, -1, batch), pieces, records, inFlight); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for n := b.N; n > 0; n -= pieces {
				if err := c.fetch(topic, min(n, pieces), len(batch), records, inFlight); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
}

// BenchmarkSync is flush.messages=1 with 64 producers: on the disk of the temporary directory,
// and on disks in memory whose syncs take a while.
func BenchmarkSync(b *testing.B) {
	b.Run("disk", func(b *testing.B) { benchSync(b, b.TempDir(), 0) })
	for _, d := range []time.Duration{500 * time.Microsecond, 2 * time.Millisecond, 10 * time.Millisecond} {
		b.Run(d.String(), func(b *testing.B) {
			dir, err := os.MkdirTemp("/dev/shm", "seedlog-bench-*")
			if err != nil {
				b.Skipf("no disk in memory: %v", err)
			}
			defer os.RemoveAll(dir)
			benchSync(b, dir, d)
		})
	}
}

func benchSync(b *testing.B, dir string, delay time.Duration) {
	for _, size := range []int{1, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			batch, _, err := benchBatch(size, 1024)
			if err != nil {
				b.Fatal(err)
			}
			err = nodeHere(filepath.Join(dir, fmt.Sprint("data-", size, "-", b.N)), func(addr string) error {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					return err
				}
				c := newBenchConn(nc.(*net.TCPConn))
				defer c.close()
				if err := c.createTopic("sync", [2]string{"flush.messages", "1"}); err != nil {
					return err
				}
				g, err := newSyncGroup(addr, 64)
				if err != nil {
					return err
				}
				defer g.close()
				frame := c.produceFrame("sync", -1, batch)
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				b.ResetTimer()
				before := processorTime(b)
				if err := g.produce("sync", frame, max(b.N, 64)); err != nil {
					return err
				}
				b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(max(b.N, 64)), "cpu-ns/op")
				return nil
			}, func(h *node.Host) {
				if delay > 0 {
					h.Disk = slowDisk{h.Disk, delay}
				}
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// processorTime is what this process used so far.
func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// slowDisk is a disk whose syncs of files take longer.
type slowDisk struct {
	disk.Disk
	delay time.Duration
}

func (d slowDisk) Open(t *task.T, path string, m disk.Mode) (disk.File, error) {
	f, err := d.Disk.Open(t, path, m)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d.delay}, nil
}

type slowFile struct {
	disk.File
	delay time.Duration
}

func (f slowFile) Sync(t *task.T) error {
	time.Sleep(f.delay)
	return f.File.Sync(t)
}
