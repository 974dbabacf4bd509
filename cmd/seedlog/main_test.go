package main

import (
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
	os.Exit(m.Run())
}
