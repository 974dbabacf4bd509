package main

import (
	"flag"
	"os"
	"testing"
)

// runAsProgram makes the test binary the program itself, for tests that need a process.
const runAsProgram = "SEEDLOG_TEST_IS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		main()
		return
	}
	os.Setenv(runAsProgram, "1") // for the children
	// What runs side by side are processes that mostly wait: for a session, or for each other.
	_ = flag.Set("test.parallel", "4")
	os.Exit(m.Run())
}
