package scenarios

// named is every scenario that tells one story.
var named = []Scenario{
	{"reference-experiment", "SPEC S3: the numbers measured on Kafka 4.1.2, over the wire", referenceExperiment},
	{"torn-tail", "SPEC S7: a power loss tears the unsynced tail; what was synced stays", tornTail},
	{"corruption-below-recovery-point", "SPEC S7: damage below the recovery point cuts nothing and takes the only copy offline", corruption},
	{"crash-while-recovering", "SPEC S7, KAFKA-10471: a crash during recovery leaves no clean marker", crashWhileRecovering},
	{"failed-fsync", "ATC'20 fsync paper: after a failed fsync nothing is acknowledged until the log was reopened", failedFsync},
	{"write-error", "KAFKA-10778: a failed write takes the directory offline at once; other directories go on", writeError},
	{"disk-full", "SPEC S11: a full disk refuses writes and still deletes topics", diskFull},
	{"metadata-directory-lost", "SPEC S11: losing the metadata directory ends the process", metadataLost},
	{"timestamps", "SPEC S8: two hours ahead is refused, eight days behind accepted, LogAppendTime stamps", timestamps},
	{"idempotence", "SPEC T1: repeats of the last five batches get their first offsets, also after a crash; gaps are refused", idempotence},
	{"recreated-topic", "KAFKA-14616: a topic of the same name is another topic", recreatedTopic},
	{"stray-directories", "KAFKA-13127: live replicas are never taken for strays", strays},
	{"error-codes", "COMPAT: each code that a client acts on", errorCodes},
	{"first-epoch", "KAFKA-10432: epoch zero is recovered after an unclean restart, with its file and without", firstEpoch},
	{"producer-outlives-data", "KAFKA-7190, KIP-360: a producer whose records are deleted is still known", producerOutlivesData},
	{"follower-log", "KAFKA-3047: a follower's log takes no batch twice", followerLog},
	{"changed-settings", "SPEC S2, S5: a log that runs takes over what is altered", changedSettings},
	{"returning-directory", "KAFKA-14616: the directory of a deleted topic comes back on a disk that was away", returningDirectory},
	{"look-up-by-time", "SPEC S4: the first record at or after a time, timestamps going up and down", lookUpByTime},
	{"prompt-answers", "invariant I30: who waits is woken by what it waits for, not by its deadline", promptAnswers},
	{"silent-member", "SPEC G: a member that says nothing for longer than its session is put out", silentMember},
	{"stale-member", "invariant I28: commits of old generations and strangers are refused", staleMember},
	{"coordinator-durability", "KAFKA-10284: what the coordinator answered survives a power loss where topics are synced", coordinatorDurability},
}
