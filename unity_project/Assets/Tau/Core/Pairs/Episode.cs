namespace Tau.Core
{
    /// <summary>Whether a decision ends the episode, and how.</summary>
    internal enum EpisodeEnd
    {
        /// <<summary>It continues.</summary>
        None,

        /// <<summary>A real end.</summary>
        Terminal,

        /// <<summary>Cut by a limit.</summary>
        Interrupted,
    }

    /// <summary>
    /// The running episode of one pair. Prompts do not depend on it: an episode is bookkeeping, as in Tau.
    /// </summary>
    internal sealed class Episode
    {
        private double _earned;
        private int _age;

        /// <summary>Starts a new episode.</summary>
        public void Begin()
        {
            _earned = 0.0;
            _age = 0;
        }

        /// <summary>Adds a decision; if it is the last one, starts a new episode.</summary>
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
