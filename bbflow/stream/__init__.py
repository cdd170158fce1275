"""What a stream is: records of blocks and steps, how blocks lie, and what attributes say."""
