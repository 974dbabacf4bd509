package record

const legacyOverheadV0 = 14
