package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"seedlog/clock/task"
	"seedlog/disk"
	"seedlog/node/meta"
	"seedlog/storage"
	"seedlog/storage/checkpoint"
	"seedlog/storage/record"
)

// deletedFile lists the topics that went with the last log that a leader's snapshot replaced, one
// id in base64 a line. A snapshot does not say what was deleted, and a broker that is killed
// before it has seen to their directories must not take those for strays. Old entries do no
// harm: no topic comes back.
const deletedFile = "deleted-topics"

// deletions is what the file says.
type deletions struct {
	topics []meta.UUID
	end    int64 // of the snapshot; what its listeners have seen they need not be told again
}

// add takes in topics that are not listed yet.
func (d *deletions) add(topics []meta.UUID) {
	listed := make(map[meta.UUID]bool, len(d.topics)+len(topics))
	for _, id := range d.topics {
		listed[id] = true
	}
	for _, id := range topics {
		if !listed[id] {
			listed[id] = true
			d.topics = append(d.topics, id)
		}
	}
}

// unseenDeletions are the topics whose deletion was replayed in this life, before every listener
// has seen it.
func (h *Host) unseenDeletions() []meta.UUID {
	topics := slices.Clone(h.replayed.deleted)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.deltas {
		topics = append(topics, d.Deleted...)
	}
	return topics
}

// loadDeletions reads the file, if there is one.
func (h *Host) loadDeletions(t *task.T) error {
	path := h.path + "/" + deletedFile
	b, err := readFile(t, h.env.Disk, path)
	if err != nil && !errors.Is(err, disk.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(b)) {
		id, err := meta.ParseUUID(strings.TrimSpace(line))
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", path, len(h.gone.topics)+1, err)
		}
		h.gone.topics = append(h.gone.topics, id)
	}
	h.gone.end = h.replayed.next
	h.replayed.deleted = slices.Clone(h.gone.topics)
	return nil
}

// noteDeletions notes, durably, which topics a leader's snapshot does not have that the image or
// the log in whose place it comes has, and which were deleted by what was replayed and not every
// listener has seen. In this life or the one before they may have had directories here.
func (h *Host) noteDeletions(t *task.T, id snapshotID, image *meta.Image) error {
	r := &h.replayed
	if h.published.Load() >= h.gone.end-1 {
		h.gone.topics = nil
	}
	h.gone.add(h.unseenDeletions())
	for topic := range r.image.Topics() {
		if image.TopicByID(topic.ID) == nil {
			h.gone.topics = append(h.gone.topics, topic.ID)
		}
	}
	err := h.readLog(t, r.next, h.log.LogEndOffset(), storage.ToLogEnd, func(head *record.Header, batch []byte) error {
		if head.IsControl() {
			return nil
		}
		records, err := decodeRecords(nil, batch)
		for _, rec := range records {
			if topic, ok := rec.Body.(*meta.TopicRecord); ok && image.TopicByID(topic.TopicID) == nil {
				h.gone.topics = append(h.gone.topics, topic.TopicID)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	h.gone.end = id.end
	if !r.shown {
		r.deleted = slices.Clone(h.gone.topics)
	}
	if len(h.gone.topics) == 0 {
		return nil
	}
	var text strings.Builder
	for _, topic := range h.gone.topics {
		text.WriteString(meta.UUIDString(topic) + "\n")
	}
	return checkpoint.Replace(t, h.env.Disk, h.path+"/"+deletedFile, []byte(text.String()))
}
