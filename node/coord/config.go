package coord

import (
	"seedlog/node/config"
	"seedlog/node/group"
)

// newMemberJoinTimeoutMs is group.consumer's fixed bound on a new member's first wait.
const newMemberJoinTimeoutMs = 5 * 60 * 1000

// GroupConfig picks the settings of groups out of a broker's.
func GroupConfig(c *config.Config) group.Config {
	return group.Config{
		MinSessionTimeoutMs:     c.GroupMinSessionTimeoutMs,
		MaxSessionTimeoutMs:     c.GroupMaxSessionTimeoutMs,
		InitialRebalanceDelayMs: c.GroupInitialRebalanceDelayMs,
		MaxSize:                 c.GroupMaxSize,
		NewMemberJoinTimeoutMs:  newMemberJoinTimeoutMs,
		OffsetMetadataMax:       c.OffsetMetadataMaxBytes,
		OffsetsRetentionMs:      c.OffsetsRetentionMs,
		OffsetsRetentionCheckMs: c.OffsetsRetentionCheckMs,
	}
}
