namespace Tau.Core
{
    /// <summary>One statistic that a game reports to its trainer.</summary>
    public readonly struct TauStat
    {
        /// <summary>A statistic.</summary>
        public TauStat(string key, double value, bool latest = false)
        {
            Key = key;
            Value = (float)value;
            Latest = latest;
        }

        /// <summary>Its name.</summary>
        public string Key { get; }

        /// <summary>Its value.</summary>
        public float Value { get; }

        /// <summary>Whether the latest of several values counts; else their mean.</summary>
        public bool Latest { get; }
    }
}
