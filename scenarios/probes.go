package scenarios

// Probes are the places that a campaign of the swarm must reach, by the name of the node's
// event or of the run's own mark.
var Probes = []string{}
