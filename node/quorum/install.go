package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"seedlog/clock"
	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/meta"
	"seedlog/node/peer"
	"seedlog/node/raft"
	"seedlog/storage/checkpoint"
)

const (
	partSuffix = ".part"
	// pieceMaxBytes is how much of a snapshot is asked for, and sent, at once.
	pieceMaxBytes = 1 << 20
	// pieceTries is how often a piece is asked for before the download is given up.
	pieceTries = 3
)

// errDownload: the leader's snapshot could not be fetched.
var errDownload = errors.New("snapshot of the leader")

// download is a snapshot that the installer fetched: its file part is whole,
// verified and durable, or err says why not.
type download struct {
	order    *raft.Install
	part     string
	snapshot *Snapshot
	image    *meta.Image
	err      error
}

// want says which snapshot is to be fetched; nil: none any more.
func (h *Host) want(order *raft.Install) {
	h.mu.Lock()
	if order != nil {
		o := *order
		order = &o
	}
	h.wanted = order
	h.mu.Unlock()
	h.install.Raise()
}

func (h *Host) isWanted() *raft.Install {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.wanted
}

// installs fetches the snapshots that are wanted, until t's group stops. Each has a task of
// its own, so that one from a leader that is gone does not hold up the next.
func (h *Host) installs(t *task.T) {
	var order *raft.Install
	var client *peer.Client
	number := 0
	for !t.Stopping() {
		seen := h.install.Generation()
		if next := h.isWanted(); next != order {
			if client != nil {
				client.Close()
				client = nil
			}
			if order = next; order != nil {
				client = peer.NewClient(peer.Env{
					RT: h.env.RT, Net: h.env.Net, ClientID: fmt.Sprintf("raft-client-%d", h.cfg.NodeID), Events: h.env.Events,
				}, "quorum snapshot fetcher")
				number++
				c, d := client, &download{order: order, part: h.partOf(order, number)}
				t.Go("metadata-download", func(t *task.T) {
					h.download(t, c, d)
					h.post(inbound{install: d})
				})
			}
		}
		h.install.Wait(t, seen, clock.Never)
	}
	if client != nil {
		client.Close()
	}
}

// download fetches a snapshot into its part file and looks at all of it.
func (h *Host) download(t *task.T, c *peer.Client, d *download) {
	if d.err = h.fetchPieces(t, c, d.order, d.part); d.err == nil {
		d.snapshot, d.err = readSnapshot(t, h.env.Disk, d.part)
	}
	if d.err == nil {
		d.image, d.err = d.snapshot.image(idOf(d.order.ID))
	}
	if d.err == nil {
		d.err = h.served(d.snapshot.KRaftVersion)
	}
}

// partOf is the file of the number-th snapshot that is fetched: one that is given up may
// still be written to.
func (h *Host) partOf(order *raft.Install, number int) string {
	return fmt.Sprintf("%s/%s.%d%s", h.path, idOf(order.ID).name(), number, partSuffix)
}

// fetchPieces writes the leader's file to part, durably.
func (h *Host) fetchPieces(t *task.T, c *peer.Client, order *raft.Install, part string) (err error) {
	f, err := h.env.Disk.Open(t, part, disk.Create)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(t); err == nil {
			err = cerr
		}
	}()
	if err := f.Truncate(t, 0); err != nil {
		return err
	}
	for at, size := int64(0), int64(1); at < size; {
		p, err := h.piece(t, c, order, at)
		if err != nil {
			return err
		}
		if _, err := f.WriteAt(t, p.bytes, at); err != nil {
			return err
		}
		size = p.size
		at += int64(len(p.bytes))
	}
	return f.Sync(t)
}

// piece asks for one piece, more than once if there is no answer.
func (h *Host) piece(t *task.T, c *peer.Client, order *raft.Install, at int64) (p piece, err error) {
	pause := 20 * time.Millisecond
	for range pieceTries {
		req := h.fetchSnapshotRequest(order, at)
		resp, err2 := h.dial(t, c, h.address(order.Endpoints), req, t.Now().Add(h.cfg.RequestTimeout))
		if err = err2; err == nil {
			p, err = h.parsePiece(resp, order.ID, at)
			h.post(inbound{event: raft.SnapshotPart{Reply: p.reply}})
			return p, err
		}
		if errors.Is(err, peer.ErrClosed) || !t.Sleep(t.Now().Add(pause)) {
			break
		}
		pause *= 4
	}
	return p, err
}

// installed takes over a snapshot that was fetched. A node that leads in the meantime, or
// follows another leader, has no use for it: an active controller never loads a snapshot.
func (h *Host) installed(t *task.T, d *download) error {
	if h.isWanted() != d.order || h.leads() {
		return h.discard(t, d.part)
	}
	h.want(nil)
	if d.err == nil && d.order.ID.EndOffset <= h.replayed.to {
		d.err = fmt.Errorf("%w: it ends at %d, and all below %d is here", errDownload, d.order.ID.EndOffset, h.replayed.to)
	}
	if d.err != nil {
		h.emit(SnapshotInstalled{Offset: d.order.ID.EndOffset, Epoch: d.order.ID.Epoch, Err: d.err})
		h.todo = append(h.todo, raft.SnapshotFailed{ID: d.order.ID})
		return h.discard(t, d.part)
	}
	if err := h.takeOver(t, d); err != nil {
		return err
	}
	h.emit(SnapshotInstalled{Offset: d.order.ID.EndOffset, Epoch: d.order.ID.Epoch})
	h.todo = append(h.todo, raft.SnapshotInstalled{ID: d.order.ID, Voters: raftVoters(d.snapshot.Voters), KRaftVersion: d.snapshot.KRaftVersion})
	return nil
}

// takeOver makes the snapshot the beginning of the log. Should power fail between the two
// steps, the log is cut when the node starts (joinLog).
func (h *Host) takeOver(t *task.T, d *download) error {
	id := idOf(d.order.ID)
	if err := h.noteDeletions(t, id, d.image); err != nil {
		return err
	}
	if err := h.env.Disk.Rename(t, d.part, h.path+"/"+id.name()); err != nil {
		return err
	}
	if err := h.env.Disk.SyncDir(t, h.path); err != nil {
		return err
	}
	if err := h.log.TruncateFullyAt(t, id.end); err != nil {
		return err
	}
	h.log.SetHighWatermark(id.end)
	older := h.store(id)
	image, delta := d.image.Since(h.replayed.image)
	h.adopt(id, d.snapshot, image)
	h.replayed.to = id.end
	if err := h.show(delta); err != nil {
		return err
	}
	return h.removeSnapshots(t, older)
}

// store adds a snapshot to those that there are, and returns the older ones.
func (h *Host) store(id snapshotID) (older []snapshotID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	stored := slices.Clone(h.stored)
	i, found := slices.BinarySearchFunc(stored, id, compareSnapshots)
	if !found {
		stored = slices.Insert(stored, i, id)
	}
	h.stored = stored
	return slices.Clone(stored[:i])
}

// removeSnapshots removes snapshots that a newer one replaces.
func (h *Host) removeSnapshots(t *task.T, older []snapshotID) error {
	for _, id := range older {
		if err := checkpoint.Remove(t, h.env.Disk, h.path+"/"+id.name()); err != nil {
			return fmt.Errorf("removing an old snapshot: %w", err)
		}
		h.mu.Lock()
		h.stored = slices.DeleteFunc(slices.Clone(h.stored), func(s snapshotID) bool { return s == id })
		h.mu.Unlock()
	}
	return nil
}

// discard removes a part file, if there is one.
func (h *Host) discard(t *task.T, part string) error {
	err := h.env.Disk.Remove(t, part)
	if errors.Is(err, disk.ErrNotExist) {
		return nil
	}
	return err
}
