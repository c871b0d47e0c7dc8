namespace Tau.Core
{
    /// <summary>The check sum of zip archives (ISO 3309), which the runtime's own reader does not compare.</summary>
    internal static class Crc32
    {
        private static readonly uint[] Table = MakeTable();

        /// <summary>Check sum of the first <paramref name="count"/> bytes.</summary>
        public static uint Of(byte[] content, int count)
        {
            var sum = 0xFFFFFFFFu;
            for (var index = 0; index < count; index++)
            {
                sum = Table[(sum ^ content[index]) & 0xFF] ^ (sum >> 8);
            }
            return ~sum;
        }

        private static uint[] MakeTable()
        {
            var table = new uint[256];
            for (var index = 0u; index < table.Length; index++)
            {
                var sum = index;
                for (var bit = 0; bit < 8; bit++)
                {
                    sum = (sum & 1) != 0 ? 0xEDB88320u ^ (sum >> 1) : sum >> 1;
                }
                table[index] = sum;
            }
            return table;
        }
    }
}
