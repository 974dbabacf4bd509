// Package record owns the bytes of records: batches of magic 2, the older message sets of
// magic 0 and 1 (read only), control records, CRC-32C and the four codecs.
//
// It is pure: no clock, no lock, no file. It never trusts a length before it has compared it
// with the bytes at hand, never panics on input, and never inflates more of a compressed batch
// than a window at a time. What a producer sent is checked here once, by [ValidateProduce], and
// then written to the segment as it is; readers of stored data trust the CRC.
//
// A batch, big endian. The CRC-32C covers everything after itself; base offset and leader epoch
// lie before it, so that a leader stamps both without reading the rest:
//
//	offset  size  field
//	     0     8  base offset
//	     8     4  length of all that follows this field (size - 12)
//	    12     4  partition leader epoch
//	    16     1  magic (2; at this place in every version)
//	    17     4  CRC-32C of [21, end)
//	    21     2  attributes: codec 0-2, timestamp type 3, transactional 4, control 5,
//	              delete horizon 6
//	    23     4  last offset delta
//	    27     8  base timestamp (the delete horizon, if bit 6 is set)
//	    35     8  max timestamp (the append time, if bit 3 is set)
//	    43     8  producer id (-1: none)
//	    51     2  producer epoch
//	    53     4  base sequence
//	    57     4  count of records
//	    61     …  the records, compressed together if a codec is set
//
// A record; every varint is zigzag, -1 as a length means null:
//
//	varint length of what follows · int8 attributes · varlong timestamp delta ·
//	varint offset delta · varint key length · key · varint value length · value ·
//	varint count of headers · { varint length · key · varint length · value }
//
// docs/formats/record-batch.md draws the same with the older formats.
package record
