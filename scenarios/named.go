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
	{"first-epoch", "KAFKA-10432: epoch zero is recovered after an unclean restart", firstEpoch},
}
