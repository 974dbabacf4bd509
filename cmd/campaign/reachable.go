package main

import (
	"net"
	"time"
)

// reachable reports whether somebody accepts connections there.
func reachable(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
	if err != nil {
		return false
	}
	c.Close()
	return true
}
