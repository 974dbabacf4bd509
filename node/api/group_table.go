package api

// groupEntries lists the keys of the group coordinator. Their handlers stand in the files
// of their keys.
func groupEntries() []entry {
	return []entry{
		{key: 8, measure: measureOffsetCommit, min: 2, max: 10, maxFrame: largeFrame, handle: on((*Service).offsetCommit)},
		{key: 9, min: 1, max: 10, maxFrame: mediumFrame, handle: on((*Service).offsetFetch)},
		{key: 10, min: 0, max: 6, maxFrame: mediumFrame, handle: on((*Service).findCoordinator)},
		{key: 11, measure: measureJoinGroup, min: 0, max: 9, maxFrame: largeFrame, handle: on((*Service).joinGroup)},
		{key: 12, min: 0, max: 4, maxFrame: smallFrame, handle: on((*Service).heartbeat)},
		{key: 13, min: 0, max: 5, maxFrame: mediumFrame, handle: on((*Service).leaveGroup)},
		{key: 14, measure: measureSyncGroup, min: 0, max: 5, maxFrame: largeFrame, handle: on((*Service).syncGroup)},
		{key: 15, min: 0, max: 6, maxFrame: mediumFrame, handle: on((*Service).describeGroups)},
		{key: 16, min: 0, max: 5, maxFrame: smallFrame, handle: on((*Service).listGroups)},
	}
}
