// Package conn serves connections: frames in, replies out, in order.
//
//	request   | size int32 | key int16 | version int16 | correlation id int32 | header rest | body |
//	header    0: nothing more   1: client id, nullable string   2: as 1, then tagged fields
//	reply     | size int32 | correlation id int32 | tags if flexible (never for ApiVersions) | body |
//
// It owns the accept loop, a reading task for each connection, the memory of frames
// ([Budget]), idle time-outs, and the order of replies. It never knows what a request means:
// that is the [Service]'s. A frame that lies (negative, too large for its key, a header that
// does not parse, an unknown key or version) closes its connection with an event; only an
// unknown version of ApiVersions is passed on.
//
// Order. Kafka serves one request of a connection at a time, and clients rely on it. A
// Produce whose reply has to wait does not hold up the Produces behind it; any other request
// starts when all earlier replies are out, and nothing is read behind it until its own is.
// How many run or wait, and how many bytes, is bounded. Replies leave in request order.
//
// Who writes. A reply that is there when Serve returns is written by the reading task, at
// no allocation. A reading task that waits for a reply writes it when it comes. While it
// reads behind a waiting Produce, a second task, started when first needed, writes. One of
// them writes at a time, everything that is ready in one go. Whoever completes a request
// only marks it and wakes.
//
// Slow peers. A frame that does not arrive, an idle connection and a client that does not
// read all end by time-outs, and hold bounded memory until then: a small buffer for each
// connection, a share of the budget for each frame that is not answered yet, PipelineBytes for
// replies that wait.
package conn
