// Package meta owns the cluster's metadata: the records of the metadata log in Kafka's
// schemas, and the immutable [Image] that replaying them gives.
//
// A record's value is framed as
//
//	+-------------------+----------------+-----------------+------------------------------+
//	| frame version = 1 | record type    | record version  | fields, flexible encoding    |
//	| uvarint           | uvarint        | uvarint         | ... tagged fields at the end |
//	+-------------------+----------------+-----------------+------------------------------+
//
// An Image never changes. [Image.Apply] returns the next one, which shares everything that
// the records did not touch, and a [Delta] that lists what they did. Every type of record
// that the package knows is kept in the image, served or not, and [Image.Records] writes it
// back, so that image = replay(snapshot(image)).
//
// What this package never does: read files, decide what to write (package controller
// does), or accept a record it does not know: dropping one would lose it from the next
// snapshot.
package meta
