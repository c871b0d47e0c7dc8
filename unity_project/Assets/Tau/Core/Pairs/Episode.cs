namespace Tau.Core
{
    /// <summary>How an episode ends with a decision.</summary>
    internal enum EpisodeEnd
    {
        /// <summary>It goes on.</summary>
        None,

        /// <summary>For real.</summary>
        Terminal,

        /// <summary>It is cut.</summary>
        Interrupted,
    }

    /// <summary>
    /// The running episode of one pair. Prompts do not depend on it: an episode is bookkeeping, as in Tau.
    /// </summary>
    internal sealed class Episode
    {
        private double _earned;
        private int _age;

        /// <summary>Begins a new episode.</summary>
        public void Begin()
        {
            _earned = 0.0;
            _age = 0;
        }

        /// <summary>Adds a decision; where it is the last one, a new episode has begun afterwards.</summary>
        public EpisodeEnd Add(double reward, TauRules rules)
        {
            _earned += reward;
            _age++;
            var full = rules.MaxDecisions > 0 && _age >= rules.MaxDecisions;
            var over = _earned <= rules.RewardThreshold || (full && rules.FaithfulTerminal);
            if (!over && !full)
            {
                return EpisodeEnd.None;
            }
            Begin();
            return over ? EpisodeEnd.Terminal : EpisodeEnd.Interrupted;
        }
    }
}
