// Stand-ins for UnityEngine: scenes, and assets that are loaded.
using System;

namespace UnityEngine
{
    public sealed class Resources
    {
        public static Object Load(string path) => default;

        public static Object Load(string path, Type systemTypeInstance) => default;

        public static T Load<T>(string path)
            where T : Object => default;

        public static Object[] LoadAll(string path, Type systemTypeInstance) => default;

        public static T[] LoadAll<T>(string path)
            where T : Object => default;

        public static AsyncOperation UnloadUnusedAssets() => default;
    }

    public class TextAsset : Object
    {
        public TextAsset() { }

        public string text => default;

        public byte[] bytes => default;
    }

    public static class JsonUtility
    {
        public static T FromJson<T>(string json) => default;

        public static string ToJson(object obj) => default;

        public static string ToJson(object obj, bool prettyPrint) => default;
    }
}

namespace UnityEngine.SceneManagement
{
    public enum LoadSceneMode
    {
        Single,
        Additive,
    }

    public struct Scene
    {
        public string name => default;

        public string path => default;

        public int buildIndex => default;

        public int rootCount => default;

        public bool isLoaded => default;

        public bool isDirty => default;

        public static bool operator ==(Scene lhs, Scene rhs) => default;

        public static bool operator !=(Scene lhs, Scene rhs) => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;

        public GameObject[] GetRootGameObjects() => default;

        public bool IsValid() => default;
    }

    public class SceneManager
    {
        public SceneManager() { }

        public static event Events.UnityAction<Scene, LoadSceneMode> sceneLoaded
        {
            add { }
            remove { }
        }

        public static event Events.UnityAction<Scene> sceneUnloaded
        {
            add { }
            remove { }
        }

        public static event Events.UnityAction<Scene, Scene> activeSceneChanged
        {
            add { }
            remove { }
        }

        public static int sceneCount => default;

        public static int sceneCountInBuildSettings => default;

        public static Scene CreateScene(string sceneName) => default;

        public static Scene GetActiveScene() => default;

        public static Scene GetSceneAt(int index) => default;

        public static Scene GetSceneByName(string name) => default;

        public static Scene GetSceneByPath(string scenePath) => default;

        public static void LoadScene(string sceneName) { }

        public static void LoadScene(string sceneName, LoadSceneMode mode) { }

        public static void LoadScene(int sceneBuildIndex) { }

        public static void LoadScene(int sceneBuildIndex, LoadSceneMode mode) { }

        public static AsyncOperation LoadSceneAsync(string sceneName) => default;

        public static AsyncOperation LoadSceneAsync(string sceneName, LoadSceneMode mode) => default;

        public static void MoveGameObjectToScene(GameObject go, Scene scene) { }

        public static bool SetActiveScene(Scene scene) => default;

        public static AsyncOperation UnloadSceneAsync(Scene scene) => default;
    }
}

namespace UnityEngine.Events
{
    public delegate void UnityAction();

    public delegate void UnityAction<T0>(T0 arg0);

    public delegate void UnityAction<T0, T1>(T0 arg0, T1 arg1);
}
