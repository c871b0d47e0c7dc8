using System;

namespace Tau.Core
{
    /// <summary>
    /// One agent's stream of random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, figure 16). It depends on
    /// the seed and the agent's number only, never on how many agents there are, and is equal bit by bit to the
    /// trainer's headless engine. Not thread-safe.
    /// </summary>
    public sealed class AgentRandom
    {
        private const ulong Gamma = 0x9E3779B97F4A7C15UL;
        private const double Unit = 1.0 / 9007199254740992.0; // 2^-53

        private ulong _state;

        /// <summary>The stream of agent <paramref name="agent"/>, counted from 0.</summary>
        /// <exception cref="ArgumentOutOfRangeException">The agent's number is negative.</exception>
        public AgentRandom(long seed, int agent)
        {
            if (agent < 0)
            {
                throw new ArgumentOutOfRangeException(nameof(agent), agent, "agents count from 0");
            }
            unchecked
            {
                _state = Mix(Mix((ulong)seed) + (((ulong)agent + 1UL) * Gamma));
            }
        }

        /// <summary>The next number in [0, 1), a multiple of 2^-53.</summary>
        public double NextUniform()
        {
            unchecked
            {
                _state += Gamma;
            }
            return (Mix(_state) >> 11) * Unit;
        }

        /// <summary>The next number in 0 .. <paramref name="count"/> - 1.</summary>
        /// <exception cref="ArgumentOutOfRangeException"><paramref name="count"/> is not positive.</exception>
        public int Next(int count)
        {
            if (count <= 0)
            {
                throw new ArgumentOutOfRangeException(nameof(count), count, "there is nothing to choose from");
            }
            return (int)(NextUniform() * count);
        }

        private static ulong Mix(ulong state)
        {
            unchecked
            {
                state ^= state >> 30;
                state *= 0xBF58476D1CE4E5B9UL;
                state ^= state >> 27;
                state *= 0x94D049BB133111EBUL;
                return state ^ (state >> 31);
            }
        }
    }
}
