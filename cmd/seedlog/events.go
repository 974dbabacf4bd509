package main

import (
	"context"
	"log/slog"

	"seedlog/node/event"
)

// logSink turns a node's events into structured log lines.
type logSink struct{ log *slog.Logger }

// Emit implements event.Sink.
func (s logSink) Emit(e event.Event) {
	level := slog.LevelInfo
	if l, ok := e.(event.Leveled); ok {
		level = [...]slog.Level{event.Debug: slog.LevelDebug, event.Info: slog.LevelInfo, event.Warn: slog.LevelWarn, event.Error: slog.LevelError}[l.Level()]
	}
	if !s.log.Enabled(context.Background(), level) {
		return
	}
	var f event.Fields
	e.Fields(&f)
	attrs := make([]slog.Attr, len(f.List))
	for i, x := range f.List {
		if x.IsNum {
			attrs[i] = slog.Int64(x.Key, x.Num)
		} else {
			attrs[i] = slog.String(x.Key, x.Text)
		}
	}
	s.log.LogAttrs(context.Background(), level, e.Name(), attrs...)
}
