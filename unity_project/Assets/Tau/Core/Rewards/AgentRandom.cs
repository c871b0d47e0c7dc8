namespace Tau.Core
{
    /// <summary>
    /// One agent's stream of random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 16). It depends
    /// only on the seed and the agent's number, not on the number of agents. It draws the same numbers as the trainer's
    /// headless engine, so equal seeds give equal questions. Not thread-safe.
    /// </summary>
    public sealed class AgentRandom
    {
        private const ulong Gamma = 0x9E3779B97F4A7C15UL;
        private const double Unit = 1.0 / (1L << 53);

        private ulong _state;

        /// <summary>The stream of agent <paramref name="agent"/>, counted from 0.</summary>
        public AgentRandom(long seed, int agent)
        {
            _state = unchecked(Mix(Mix((ulong)seed) + (((ulong)agent + 1UL) * Gamma)));
        }

        /// <summary>The next number in 0 .. <paramref name="count"/> - 1.</summary>
        public int Next(int count)
        {
            _state = unchecked(_state + Gamma);
            return (int)((Mix(_state) >> 11) * Unit * count);
        }

        private static ulong Mix(ulong state)
        {
            unchecked
            {
                state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9UL;
                state = (state ^ (state >> 27)) * 0x94D049BB133111EBUL;
                return state ^ (state >> 31);
            }
        }
    }
}
