"""How tests start Java: compiled once and lightly, because no test runs long enough for more."""

__all__ = ["FAST_JAVA", "JAVA_OPTIONS"]

JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# For programs that start Spark themselves; Java reads the variable.
FAST_JAVA = {"JDK_JAVA_OPTIONS": JAVA_OPTIONS}
