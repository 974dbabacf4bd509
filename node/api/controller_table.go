package api

// controllerEntries lists the keys that only a controller decides, on its own listener and,
// passed on, on those of brokers. Their handlers stand in the files of their keys.
func controllerEntries() []entry { return nil }
