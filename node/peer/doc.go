// Package peer is the client of another node: one connection, one request at a time.
//
//	Do --> turn (first come, first served) --> dial if not connected to addr
//	   --> frame out --> size, correlation id, tags, body in --> decoded response
//
//	request   size int32 | key int16 | version int16 | correlation id int32 | client id string
//	          | tags (flexible) | body
//	response  size int32 | correlation id int32 | tags (flexible) | body
//
// It owns the connection and one buffer each for what goes out and what comes in. A response
// points into the latter and is valid until the next Do of anybody.
//
// After any error the connection is closed: what still arrives on it answers nobody. That is
// also why nothing is sent twice here: whether the other side acted on a request whose
// answer is missing is for the caller to find out, and so is how long to pause before the
// next try.
//
// What this package never does: decide whom to ask, retry, or trust a length before it is
// checked.
package peer
