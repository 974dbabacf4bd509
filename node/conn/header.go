package conn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	keyProduce            = int16(kmsg.Produce)
	keyApiVersions        = int16(kmsg.ApiVersions)
	keyControlledShutdown = int16(kmsg.ControlledShutdown)

	// headerMin is key, version and correlation id.
	headerMin = 8
)

var errHeader = errors.New("malformed request header")

// headerVersion is the version of a request's header.
func headerVersion(key, version int16, flexible bool) int {
	switch {
	case key == keyControlledShutdown && version == 0:
		return 0
	case flexible:
		return 2
	}
	return 1
}

// header is a parsed request header.
type header struct {
	key, version  int16
	correlationID int32
	client        []byte // within the frame
	null          bool   // the client id is null
}

// parseHeader parses the header of the version at the beginning of a frame, and returns
// what is behind it.
func parseHeader(frame []byte, version int) (h header, body []byte, err error) {
	if len(frame) < headerMin {
		return h, nil, fmt.Errorf("%w: %d bytes", errHeader, len(frame))
	}
	h.key = int16(binary.BigEndian.Uint16(frame))
	h.version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.correlationID = int32(binary.BigEndian.Uint32(frame[4:]))
	h.null = true
	b := frame[headerMin:]
	if version == 0 {
		return h, b, nil
	}
	if len(b) < 2 {
		return h, nil, fmt.Errorf("%w: ends before the client id", errHeader)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n < -1 || n > len(b):
		return h, nil, fmt.Errorf("%w: client id of %d bytes, %d left", errHeader, n, len(b))
	case n >= 0:
		h.client, h.null, b = b[:n], false, b[n:]
	}
	if version < 2 {
		return h, b, nil
	}
	if b, err = SkipTags(b); err != nil {
		return h, nil, fmt.Errorf("%w: %w", errHeader, err)
	}
	return h, b, nil
}

// name is what a request is called in reasons and panics.
func name(key, version int16) string {
	s := kmsg.NameForKey(key)
	if s == "" || s == "Unknown" {
		s = "key " + strconv.Itoa(int(key))
	}
	return s + " v" + strconv.Itoa(int(version))
}
